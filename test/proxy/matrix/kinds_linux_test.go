package matrix

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/test/proxy/lab"
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
			endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{addr.String()},
				NodeName: new(remoteName)})
		}
		e.slices = append(e.slices, sliceOf(e.name, i, bothProtocols(manyPort), endpoints...))
	}
	return e
}

// manyServers gives the other node of a side all the addresses of manyRange.
func manyServers(p *lab.Stage, s *side) {
	p.Helper()
	dst := platform.IPNet(netip.MustParsePrefix(manyRange))
	p.Must(platform.InNetns(s.node.Netns, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(remoteIP)})
	}))
	p.Must(platform.InNetns(s.remote.Netns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL,
			Scope: netlink.SCOPE_HOST, Table: unix.RT_TABLE_LOCAL})
	}))
	p.Serve(lab.Place{Netns: s.remote.Netns, Addr: netip.IPv4Unspecified()}, manyPort)
}

// testMany: the first 1,024 backends serve, the others never, and an event of the service reports it.
func (p *pair) testMany(e entry) {
	p.Must(loadOne(p.Context(), p.Lab, e))
	defer func() { p.Must(p.Lab.DeleteService(p.Context(), namespace, e.name)) }()
	i := slices.IndexFunc(e.fronts, func(f front) bool { return f.kind == clusterIP && f.proto == "tcp" })
	// A question that comes before the load balancer leaves a flow without translation behind, for three seconds, and
	// one of the many below would have its source port.
	p.warned(e) // it has planned for both slices
	p.programmed(namespace + "/" + e.name)
	p.windows.await(p.Stage, time.Minute,
		[]cell{{entry: e.name, kind: clusterIP, proto: "tcp", addr: e.fronts[i].addr, client: fromPod}})
	var pending []<-chan map[string]int
	for range askers {
		q := question{Proto: "tcp", Addr: e.fronts[i].addr, N: asksEach, Patience: muchPatience}
		pending = append(pending, p.windows.probers[fromPod].ask(q))
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
			p.Errorf("%q answered %d times and is not among the first %d", server, n, servedAtMost)
		}
	}

	if len(met) < servedAtMost-40 {
		p.Errorf("only %d backends of %d answered", len(met), servedAtMost)
	}
}

// programmed waits until kube-proxy.exe says so of a service.
func (p *pair) programmed(service string) {
	p.Helper()
	p.Until("the load balancers of "+service, time.Minute, func() error {
		var status struct{ Right []struct{ State string } }
		err := p.Read("/status?all&service="+service, &status)
		if err == nil && (len(status.Right) != 1 || status.Right[0].State != "programmed") {
			err = fmt.Errorf("%+v", status)
		}
		return err
	})
}

// warned waits for a Warning about the service that our proxy made.
func (p *pair) warned(e entry) {
	p.Helper()
	p.Until("an event", 20*time.Second, p.Event(e.service, corev1.EventTypeWarning, "", ""))
}

// testSticky: a client stays with its backend for the time of its affinity while others come, on every kind of
// frontend.
func (p *pair) testSticky(e entry) {
	cells, _ := cellsOf([]entry{e})
	before := p.windows.ask(cells, fewTimes)
	served := maps.Clone(before)
	maps.DeleteFunc(served, func(_ cell, o outcome) bool { return len(o.backends) == 0 })
	if len(served) == 0 {
		p.Fatal("nobody answers")
	}

	after := p.windows.ask(slices.Collect(maps.Keys(served)), manyTimes)
	for c, o := range served {
		if len(after[c].backends) != 1 || after[c].backends[0] != o.backends[0] {
			p.Errorf("%s: %s, then %s", c, o, after[c])
		}
	}

}

// byName finds an entry.
func (p *pair) byName(name string) entry {
	p.Helper()
	i := slices.IndexFunc(p.all, func(e entry) bool { return e.name == name })
	if i < 0 {
		p.Fatalf("there is no entry %s", name)
	}
	return p.all[i]
}
