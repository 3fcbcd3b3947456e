package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxylab"
)

const (
	upstreamsRelay = 7001
	fewTimes       = 6 // each cell is asked so often at first
	// and so often when the answers differ: to miss one of four backends has a chance of 1 in 25,000
	manyTimes = 40
	longest   = 15 * time.Second
	mostAlone = 40 // cells that are asked one at a time; a cell without an answer takes 5 s
)

// side is one of the two networks, with its node under test.
type side struct {
	name         string
	node, remote proxylab.Place
	probers      map[string]*prober
	addrs        addresses
}

// podMaker makes a pod of the node under test.
type podMaker func(name string, addr netip.Addr) (*proxylab.Pod, error)

// member is a node of a side.
type member struct {
	proxylab.Place
	Pod podMaker
}

func linuxMember(t *testing.T, lab *proxylab.Lab, name string) member {
	t.Helper()
	node, err := lab.AddNode(t.Context(), name)
	must(t, err)
	return member{node.Place, node.Pod}
}

func hostPods(ctx context.Context, h *proxylab.Host) podMaker {
	return func(name string, addr netip.Addr) (*proxylab.Pod, error) { return h.Pod(ctx, name, addr) }
}

// dress puts pods, servers and clients into a lab with the node under test and another.
func dress(t *testing.T, name string, lab *proxylab.Lab, node, remote member) *side {
	t.Helper()
	if node.Addr.String() != nodeIP || remote.Addr.String() != remoteIP || lab.Outside.Addr.String() != outIP {
		t.Fatalf("%s: addresses are %s, %s and %s", name, node.Addr, remote.Addr, lab.Outside.Addr)
	}
	must(t, forgetful(node.Netns))
	must(t, lab.RoutePrefix(netip.MustParsePrefix(externalRange), node.Place))

	places := map[string]proxylab.Place{"n1": node.Place, "n2": remote.Place, "out": lab.Outside}
	for server, addr := range backendAddrs() {
		if _, is := places[server]; is {
			continue
		}
		of := remote.Pod
		if server[0] == 'l' {
			of = node.Pod
		}
		p, err := of(server, netip.MustParseAddr(addr))
		must(t, err)
		places[server] = p.Place
	}

	for server, place := range places {
		serve(t, place.Netns, server, fmt.Sprintf("%s:%d", place.Addr, mainPort))
		serve(t, place.Netns, fmt.Sprintf("%s:%d", server, otherPort), fmt.Sprintf("%s:%d", place.Addr, otherPort))
	}

	client, err := node.Pod("client", netip.MustParseAddr(clientPod))
	must(t, err)
	s := &side{name: name, node: node.Place, remote: remote.Place, probers: map[string]*prober{}, addrs: addresses{
		node: []string{nodeIP, "10.244.1.1", "10.244.1.2"}, // the last two are the node's in its pods' network
		client: map[string][]string{fromPod: {clientPod}, fromOutside: {outIP}, fromBackend: {backendAddrs()["l1"]},
			fromNode: {nodeIP}},
	}}
	for who, place := range map[string]proxylab.Place{fromPod: client.Place, fromNode: node.Place,
		fromOutside: lab.Outside, fromBackend: places["l1"]} {
		s.probers[who] = startProber(t, place.Netns)
	}

	return s
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
func (s *side) await(t *testing.T, limit time.Duration, cells []cell) {
	t.Helper()
	err := wait.For(t.Context(), limit, s.name+" to serve the last service", func(context.Context) error {
		for c, o := range s.ask(cells, 1) {
			if len(o.backends) == 0 {
				return fmt.Errorf("%s: %s", c, o)
			}
		}
		return nil
	})
	must(t, err)
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
	for _, reason := range sortedKeys(byReason) {
		t.Logf("%d known differences: %s", byReason[reason], reason)
	}
	if len(others) > 0 {
		t.Errorf("%d differences without a known reason:\n%s", len(others), table(others))
	}
}

// load puts all objects into the API server.
func load(ctx context.Context, client kubernetes.Interface, entries []entry) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // external IPs are deprecated, and here to stay
	name := metav1.ObjectMeta{Name: namespace}
	if _, err := client.CoreV1().Namespaces().
		Create(ctx, &corev1.Namespace{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return err
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	var errs []error

	next := make(chan entry)
	for range 8 {
		work.Go(func() {
			for e := range next {
				if err := loadOne(ctx, client, e); err != nil {
					mu.Lock()
					errs = append(errs, fmt.Errorf("creating %s: %w", e.name, err))
					mu.Unlock()
				}
			}
		})
	}

	for _, e := range entries {
		next <- e
	}
	close(next)
	work.Wait()
	return errors.Join(errs...)
}

func loadOne(ctx context.Context, client kubernetes.Interface, e entry) error {
	for _, s := range e.slices {
		if _, err := client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	made, err := client.CoreV1().Services(namespace).Create(ctx, e.service, metav1.CreateOptions{})
	if err != nil || len(e.ingress) == 0 {
		return err
	}
	made.Status.LoadBalancer.Ingress = e.ingress
	_, err = client.CoreV1().Services(namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// built is the folder of the programs.
func built(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	bin, err := filepath.Abs("../../bin")
	must(t, err)
	return bin
}

// forgetful makes the connections of a namespace be forgotten soon after their end. The tests make a hundred thousand
// of them, and both proxies look through all when the backends of UDP services change.
func forgetful(netns string) error {
	return platform.InNetns(netns, func() error {
		for name, seconds := range map[string]string{"udp_timeout": "3", "udp_timeout_stream": "3",
			"tcp_timeout_close":     "1",
			"tcp_timeout_time_wait": "1", "tcp_timeout_syn_sent": "3", "tcp_timeout_fin_wait": "3",
			"tcp_timeout_last_ack": "3"} {
			if err := os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_"+name, []byte(seconds), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}
