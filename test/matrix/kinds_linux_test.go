package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/proxylab"
)

const (
	manyRange = "10.244.16.0/20" // of another node, which has all of these addresses
	manyName  = "many-backends"
	manyPort  = 8090
	asksEach  = 500
	askers    = 10 // in all 5000 connections: of 1024 backends all but 8 are met
)

// manyEntry has more backends than HNS takes.
func manyEntry(n *numbering) entry {
	e := n.loadBalancer(manyName, []string{fromPod})
	addr := netip.MustParsePrefix(manyRange).Addr()
	for i := range 2 {
		var endpoints []discoveryv1.Endpoint
		for range manyBackends / 2 {
			addr = addr.Next()
			node := remoteName
			endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{addr.String()}, NodeName: &node})
		}
		e.slices = append(e.slices, sliceOf(e.name, i, bothProtocols(manyPort), endpoints...))
	}
	return e
}

// manyServers gives the other node of a side all the addresses of manyRange.
func manyServers(t *testing.T, s *side) {
	t.Helper()
	many := netip.MustParsePrefix(manyRange)
	dst := &net.IPNet{IP: many.Addr().AsSlice(), Mask: net.CIDRMask(many.Bits(), 32)}
	must(t, platform.InNetns(s.node.Netns, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(remoteIP)})
	}))
	must(t, platform.InNetns(s.remote.Netns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		err = netlink.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL,
			Scope: netlink.SCOPE_HOST, Table: unix.RT_TABLE_LOCAL})
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", manyPort))
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })

		go serveTCP(l, func(local net.Addr) string { return local.(*net.TCPAddr).IP.String() })
		return nil
	}))
}

// testMany: the first 1,024 backends serve, the others never, and an event of the service reports it.
func testMany(t *testing.T, p *pair, e entry) {
	must(t, loadOne(t.Context(), p.lab.Client, e))
	defer func() { must(t, p.lab.DeleteService(t.Context(), namespace, e.name)) }()
	i := slices.IndexFunc(e.fronts, func(f front) bool { return f.kind == clusterIP && f.proto == "tcp" })
	// A question that comes before the load balancer leaves a flow without translation behind, for three seconds, and
	// one of the many below would have its source port.
	warned(t, p.lab.Client, e.name) // it has planned for both slices
	p.programmed(t, namespace+"/"+e.name)
	p.windows.await(t, time.Minute,
		[]cell{{entry: e.name, kind: clusterIP, proto: "tcp", addr: e.fronts[i].addr, client: fromPod}})
	var pending []<-chan map[string]int
	for range askers {
		pending = append(pending,
			p.windows.probers[fromPod].ask(question{Proto: "tcp", Addr: e.fronts[i].addr, N: asksEach,
				Patience: muchPatience}))
	}

	met := map[string]int{}
	for _, answers := range pending {
		for answer, n := range <-answers {
			server, _, _ := strings.Cut(answer, " ")
			met[server] += n
		}
	}

	var all []netip.Addr
	for _, s := range e.slices {
		for _, p := range s.Endpoints {
			all = append(all, netip.MustParseAddr(p.Addresses[0]))
		}
	}

	slices.SortFunc(all, netip.Addr.Compare)
	first := map[string]bool{}
	for _, a := range all[:servedAtMost] {
		first[a.String()] = true
	}

	for server, n := range met {
		if !first[server] {
			t.Errorf("%q answered %d times and is not among the first %d", server, n, servedAtMost)
		}
	}

	if len(met) < servedAtMost-40 {
		t.Errorf("only %d backends of %d answered", len(met), servedAtMost)
	}
}

// programmed waits until kube-proxy.exe says so of a service.
func (p *pair) programmed(t *testing.T, service string) {
	t.Helper()
	must(t, wait.For(t.Context(), time.Minute, "the load balancers of "+service, func(ctx context.Context) error {
		_, body, err := p.host.Get(ctx, proxylab.MetricsPort, "/status?all&service="+service)
		if err != nil {
			return err
		}
		var status struct{ Right []struct{ State string } }
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			return err
		}
		if len(status.Right) != 1 || status.Right[0].State != "programmed" {
			return errors.New(body)
		}
		return nil
	}))
}

// warned waits for a Warning about the service that a service proxy made.
func warned(t *testing.T, client kubernetes.Interface, service string) {
	t.Helper()
	err := wait.For(t.Context(), 20*time.Second, "an event about "+service, func(ctx context.Context) error {
		list, err := client.CoreV1().Events(namespace).
			List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + service})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Type == corev1.EventTypeWarning {
				t.Logf("%s: %s: %s", service, e.Reason, e.Message)
				return nil
			}
		}
		return errors.New("there is none")
	})
	if err != nil {
		t.Error(err)
	}
}

// testSticky: a client stays with its backend for the time of its affinity while others come, on every kind of
// frontend.
func testSticky(t *testing.T, windows *side, e entry) {
	var cells []cell
	for _, f := range e.fronts {
		for _, c := range f.clients {
			cells = append(cells, cell{e.name, f.kind, f.proto, f.addr, c})
		}
	}

	before := windows.ask(cells, fewTimes)
	served := maps.Clone(before)
	maps.DeleteFunc(served, func(_ cell, o outcome) bool { return len(o.backends) == 0 })
	if len(served) == 0 {
		t.Fatal("nobody answers")
	}

	after := windows.ask(slices.Collect(maps.Keys(served)), manyTimes)
	for c, o := range served {
		if len(after[c].backends) != 1 || after[c].backends[0] != o.backends[0] {
			t.Errorf("%s: %s, then %s", c, o, after[c])
		}
	}

	clients := map[string]map[string]bool{}
	for c, o := range served {
		if clients[c.client] == nil {
			clients[c.client] = map[string]bool{}
		}
		clients[c.client][o.backends[0]] = true
	}

	t.Logf("backends by client: %v", clients)
}

// update writes the entries' slices as they are now.
func update(ctx context.Context, client kubernetes.Interface, entries []entry) error {
	var errs []error
	for _, e := range entries {
		for _, s := range e.slices {
			_, err := client.DiscoveryV1().EndpointSlices(namespace).Update(ctx, s, metav1.UpdateOptions{})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// byName finds an entry.
func byName(t *testing.T, entries []entry, name string) entry {
	t.Helper()
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		t.Fatalf("there is no entry %s", name)
	}
	return entries[i]
}
