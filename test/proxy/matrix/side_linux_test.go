package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/test/proxy/lab"
)

const (
	bin = "../../../bin"

	fewTimes = 6 // each cell is asked so often at first
	// and so often when the answers differ: to miss one of four backends has a chance of 1 in 25,000
	manyTimes = 40
	longest   = 15 * time.Second
	mostAlone = 40 // cells that are asked one at a time; a cell without an answer takes 5 s
)

// side is one of the two networks, with its node under test.
type side struct {
	name         string
	node, remote lab.Place
	probers      map[string]*prober
	addrs        addresses
}

// member is a node of a side.
type member struct {
	lab.Place
	lab.PodMaker
}

func linuxMember(s *lab.Stage, name string) member {
	s.Helper()
	node, err := s.Lab.AddNode(s.Context(), name)
	s.Must(err)
	return member{node.Place, node}
}

// dress puts pods, servers and clients into a lab with the node under test and another.
func dress(s *lab.Stage, name string, node, remote member) *side {
	s.Helper()
	outside := s.Lab.Outside
	if node.Addr.String() != nodeIP || remote.Addr.String() != remoteIP || outside.Addr.String() != outIP {
		s.Fatalf("%s: addresses are %s, %s and %s", name, node.Addr, remote.Addr, outside.Addr)
	}
	s.Must(forgetful(node.Netns))
	s.Must(s.Lab.RoutePrefix(netip.MustParsePrefix(externalRange), node.Place))

	places := map[string]lab.Place{"n1": node.Place, "n2": remote.Place, "out": outside}
	for server, addr := range backendAddrs() {
		if _, is := places[server]; is {
			continue
		}
		of := remote
		if server[0] == 'l' {
			of = node
		}
		p, err := of.Pod(s.Context(), server, netip.MustParseAddr(addr))
		s.Must(err)
		places[server] = p.Place
	}

	for server, place := range places {
		place.Name, place.Addr6 = server, netip.Addr{} // asked in IPv4 only
		serveTwice(s, place)
	}

	client, err := node.Pod(s.Context(), "client", netip.MustParseAddr(clientPod))
	s.Must(err)
	out := &side{name: name, node: node.Place, remote: remote.Place, probers: map[string]*prober{}, addrs: addresses{
		node: []string{nodeIP, "10.244.1.1", "10.244.1.2"}, // the last two are the node's in its pods' network
		client: map[string][]string{fromPod: {clientPod}, fromOutside: {outIP}, fromBackend: {backendAddrs()["l1"]},
			fromNode: {nodeIP}},
	}}
	for who, place := range map[string]lab.Place{fromPod: client.Place, fromNode: node.Place,
		fromOutside: outside, fromBackend: places["l1"]} {
		out.probers[who] = startProber(s, place.Netns)
	}
	return out
}

// ask puts the cells' questions n times each.
func (s *side) ask(cells []cell, n int) map[cell]outcome {
	pending := make([]<-chan map[string]int, len(cells))
	for i, c := range cells {
		times := n
		if c.kind == healthPort {
			times = 1
		}
		q := question{Proto: c.proto, Addr: c.addr, N: times}
		if n == manyTimes {
			q.Patience = muchPatience
		}
		pending[i] = s.probers[c.client].ask(q)
	}
	out := map[cell]outcome{}
	for i, c := range cells {
		out[c] = outcomeOf(c, <-pending[i], s.addrs)
	}
	return out
}

// await asks until a backend answers every cell.
func (s *side) await(p *lab.Stage, limit time.Duration, cells []cell) {
	p.Helper()
	p.Until(s.name+" to serve the last service", limit, func() error {
		for c, o := range s.ask(cells, 1) {
			if len(o.backends) == 0 {
				return fmt.Errorf("%s: %s", c, o)
			}
		}
		return nil
	})
}

// settle asks the Windows side, and compares its outcomes with l, those of the Linux side. Cells that differ without
// a known reason are asked again on both sides, and l gets the new outcomes, until all are equal or the time is over:
// a proxy may still be at work, and a few questions need not reach all backends. Cells that differ at the end are
// asked one at a time: on a busy machine, many questions at once can be too many for a relay under Wine.
func settle(windows, linux *side, l map[cell]outcome, cells []cell, sticky map[cell]bool, list []known) []difference {
	w := windows.ask(cells, fewTimes)
	for deadline, round := time.Now().Add(longest), 0; ; round++ {
		var again []cell
		for _, d := range compare(cells, sticky, w, l, list) {
			if d.known == "" || round == 0 {
				again = append(again, d.cell)
			}
		}

		last := round > 1 && time.Now().After(deadline)
		if len(again) == 0 || last && len(again) > mostAlone {
			break
		}
		group := len(again)
		if last {
			group = 1
		}
		for part := range slices.Chunk(again, group) {
			askAgain(windows, linux, part, w, l)
		}
		if last {
			break
		}
	}
	return compare(cells, sticky, w, l, list)
}

// askAgain asks both sides the same cells many times, at the same time, and puts the new outcomes into w and l.
func askAgain(windows, linux *side, cells []cell, w, l map[cell]outcome) {
	var x, y map[cell]outcome
	var both sync.WaitGroup
	both.Go(func() { x = windows.ask(cells, manyTimes) })
	both.Go(func() { y = linux.ask(cells, manyTimes) })
	both.Wait()
	maps.Copy(w, x)
	maps.Copy(l, y)
}

// report counts the known differences by reason, and fails for every other.
func report(t *testing.T, found []difference, cells int) {
	t.Helper()
	byReason, others := map[string]int{}, []difference(nil)
	for _, d := range found {
		if d.known != "" {
			byReason[d.known]++
		} else {
			others = append(others, d)
		}
	}
	t.Logf("%d questions, %d without a known difference", cells, cells-len(found))
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		t.Logf("%d known differences: %s", byReason[reason], reason)
	}
	if len(others) > 0 {
		t.Errorf("%d differences without a known reason:\n%s", len(others), table(others))
	}
}

// load puts all objects into the API server.
func load(ctx context.Context, l *lab.Lab, entries []entry) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // external IPs are deprecated, and here to stay
	name := metav1.ObjectMeta{Name: namespace}
	if _, err := l.Client.CoreV1().Namespaces().
		Create(ctx, &corev1.Namespace{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return err
	}
	var work sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		work.Go(func() {
			for j := i; j < len(entries); j += len(errs) {
				errs[i] = errors.Join(errs[i], loadOne(ctx, l, entries[j]))
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

func loadOne(ctx context.Context, l *lab.Lab, e entry) error {
	for _, s := range e.slices {
		if err := l.ApplySlice(ctx, s); err != nil {
			return err
		}
	}
	_, err := l.ApplyService(ctx, e.service)
	return err
}

// forgetful makes the connections of a namespace be forgotten soon after their end. The tests make a hundred thousand
// of them, and both proxies look through all when the backends of UDP services change.
func forgetful(netns string) error {
	seconds := map[string]string{}
	for name, n := range map[string]string{"udp_timeout": "3", "udp_timeout_stream": "3", "tcp_timeout_close": "1",
		"tcp_timeout_time_wait": "1", "tcp_timeout_syn_sent": "3", "tcp_timeout_fin_wait": "3",
		"tcp_timeout_last_ack": "3"} {
		seconds["net/netfilter/nf_conntrack_"+name] = n
	}
	return platform.InNetns(netns, func() error { return platform.SetSysctls(seconds) })
}
