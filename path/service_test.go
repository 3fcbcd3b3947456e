package path

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/hns"
)

func backend(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

// policyLocal adds node port 30080 with external traffic policy Local to the service of three: lin and win have a
// backend each. The rules are those that kube-proxy and our proxy make of it.
func policyLocal(f *Facts) {
	outside := f.Cluster.Services[0]
	outside.Addresses, outside.NodePort, outside.External, outside.Local = []netip.Addr{addr("203.0.113.80")}, 30080,
		true, true
	f.Cluster.Services = append(f.Cluster.Services, outside)

	lin := f.node("lin")
	for _, address := range []netip.Addr{{}, addr("203.0.113.80")} {
		port := uint16(80)
		if !address.IsValid() {
			port = 30080
		}
		lin.Services = append(lin.Services,
			Rule{Address: address, Protocol: "tcp", Port: port, Text: "nft chain external-web",
				Backends: lin.Services[0].Backends, Split: true, Others: []netip.AddrPort{backend("10.244.0.5:8080")}})
	}
	for name, ids := range map[string][]hns.EndpointID{"win": {"six"}, "win2": {"five", "six"}} {
		h := f.node(name).HNS
		h.Balancers = append(h.Balancers,
			hns.LoadBalancer{ID: "ingress", Endpoints: ids, VIPs: []netip.Addr{addr("203.0.113.80")},
				Ports: []hns.Port{{Protocol: hns.TCP, External: 80, Internal: 8080}}})
		if name == "win" {
			h.Balancers = append(h.Balancers,
				hns.LoadBalancer{ID: "node port", Endpoints: ids,
					Ports: []hns.Port{{Protocol: hns.TCP, External: 30080, Internal: 8080}}})
		}
	}
}

// TestTrafficPolicyLocal: who gets which backends depends on where the client is, and on the system that serves it.
func TestTrafficPolicyLocal(t *testing.T) {
	const both = "10.244.0.5:8080 10.244.1.5:8080"
	for _, c := range []struct{ from, to, want string }{
		{"on-lin", "web", both}, // the cluster IP has another policy
		{"on-win2", "web", both},
		{"on-lin", "203.0.113.80:80", both}, // a pod on Linux
		{"lin", "203.0.113.80:80", both},    // the node itself
		{"on-lin", "10.0.0.11:30080", both},
		{"win", "10.0.0.11:30080", "10.244.0.5:8080"},
		{"203.0.113.1", "10.0.0.11:30080", "10.244.0.5:8080"},
		{"on-win", "203.0.113.80:80", "10.244.1.5:8080"}, // HNS has one list for all clients
		{"on-win2", "203.0.113.80:80", both},             // and no backend on this node
		{"203.0.113.1", "10.0.0.21:30080", "10.244.1.5:8080"},
		{"on-lin", "10.0.0.21:30080", "10.244.1.5:8080"},
		{"on-lin", "10.0.0.22:30080", "default/web has no ready backend on node win2, and its traffic policy is Local"},
	} {
		f := three()
		policyLocal(f)
		r := follow(t, f, c.from, c.to)
		var got []string
		for _, w := range r.Ways {
			got = append(got, w.Backend.String())
		}
		if first := r.First(); first != nil {
			got = []string{first.Wrong.Found}
		}
		if !strings.HasSuffix(strings.Join(got, " "), c.want) || r.Unknown() {
			var b strings.Builder
			r.Print(&b)
			t.Errorf("%s to %s: %s, want %s\n%s", c.from, c.to, got, c.want, b.String())
		}
	}

	f := three()
	policyLocal(f)
	// a pod of another node: the answer from a third one does not pass kube-proxy
	r := follow(t, f, "on-win2", "10.0.0.11:30080")
	if len(r.Ways) != 2 || r.Ways[0].First() != nil || r.Ways[1].First() == nil || r.Ways[1].First().What != "answer" ||
		r.Ways[1].First().At != "win" {
		t.Errorf("a pod of another node: %+v", r)
	}

	f.node("lin").Services[1].Others = f.node("lin").Services[1].Backends
	if h := follow(t, f, "203.0.113.1", "10.0.0.11:30080").First(); h == nil || h.At != "lin" ||
		!strings.Contains(h.Wrong.Found, "10.244.1.5:8080") {
		t.Errorf("a rule that sends clients from outside to another node: %+v", h)
	}
}

// TestBackendsFor compares with kube-proxy's rules for endpoints that terminate, and for topology hints.
func TestBackendsFor(t *testing.T) {
	ready := func(text, node string) Backend { return Backend{Address: backend(text), Node: node} }
	ends := func(text, node string) Backend { return Backend{Address: backend(text), Node: node, Terminating: true} }
	hinted := func(b Backend, zone, node string) Backend {
		if zone != "" {
			b.ForZones = []string{zone}
		}
		if node != "" {
			b.ForNodes = []string{node}
		}
		return b
	}

	one, two, three := "10.244.0.1:80", "10.244.1.2:80", "10.244.1.3:80"
	for _, c := range []struct {
		name     string
		backends []Backend
		local    bool
		want     []string
	}{
		{"all that are ready", []Backend{ready(one, "a"), ready(two, "b"), ends(three, "b")}, false,
			[]string{one, two}},
		{"none is ready", []Backend{ends(one, "a"), ends(three, "b")}, false, []string{one, three}},
		{"none is ready here", []Backend{ready(one, "b"), ends(two, "a"), ends(three, "b")}, true, []string{two}},
		{"none is here", []Backend{ready(one, "b"), ends(three, "b")}, true, nil},
		{"in two slices, by different states", []Backend{ends(one, "a"), ready(one, "a")}, false, []string{one}},
		{"for this zone", []Backend{hinted(ready(one, "a"), "z", ""), hinted(ready(two, "b"), "y", ""),
			ends(three, "b")}, false, []string{one}},
		{"for no zone of ours", []Backend{hinted(ready(one, "a"), "x", ""), hinted(ready(two, "b"), "y", "")}, false,
			[]string{one, two}},
		{"one without a hint", []Backend{hinted(ready(one, "a"), "z", ""), ready(two, "b")}, false, []string{one, two}},
		{"for this node before this zone",
			[]Backend{hinted(ready(one, "a"), "z", "b"), hinted(ready(two, "b"), "z", "a")}, false, []string{two}},
		{"hints do not matter for Local", []Backend{hinted(ready(one, "a"), "y", ""), hinted(ready(two, "b"), "z", "")},
			true, []string{one}},
		{"of another family", []Backend{ready("[fd00::1]:80", "a"), ready(one, "a")}, false, []string{one}},
	} {
		s := Service{Backends: c.backends, Local: c.local}
		var got []string
		for _, b := range s.backendsFor(&ClusterNode{Name: "a", System: "linux", Zone: "z"},
			target{place: place{addr: addr("10.96.0.1")}}, true) {
			got = append(got, b.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestHeadlessTerminating: DNS has the addresses of ready endpoints only.
func TestHeadlessTerminating(t *testing.T) {
	f := three()
	f.Cluster.Services = []Service{{Name: "default/db", Protocol: "tcp", Port: 80, Headless: true, Backends: []Backend{
		{Address: backend("10.244.0.5:80"), Node: "lin"},
		{Address: backend("10.244.1.5:80"), Node: "win", Terminating: true}}}}
	if r := follow(t, f, "on-lin", "db"); len(r.Ways) != 1 || r.First() != nil {
		t.Errorf("%+v", r)
	}
	f.Cluster.Services[0].Backends = f.Cluster.Services[0].Backends[1:]
	if h := follow(t, f, "on-lin", "db").First(); h == nil || !strings.Contains(h.Wrong.Found, "no ready backend") {
		t.Errorf("with an endpoint that terminates: %+v", h)
	}
}

// TestUnreadIPv6: rules of IPv4 are known although those of IPv6 are not.
func TestUnreadIPv6(t *testing.T) {
	n := three().node("lin")
	n.Unread = map[string]string{UnreadServices6: "ip6tables-save: permission denied"}
	if _, rule, unread := n.serving(target{place: place{addr: addr("10.96.0.80")}, port: 80, protocol: "tcp"},
		true); rule == "" || unread != "" {
		t.Errorf("IPv4: rule %q, unread %q", rule, unread)
	}
	if _, rule, unread := n.serving(target{place: place{addr: addr("fd00::80")}, port: 80, protocol: "tcp"},
		true); rule != "" || unread != "ip6tables-save: permission denied" {
		t.Errorf("IPv6: rule %q, unread %q", rule, unread)
	}
}
