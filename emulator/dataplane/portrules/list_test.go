package portrules

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/render"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// What is listed is in the kernel, in both families, unless another endpoint has its port; each rule has counts of its
// own.
func TestPortRulesAreCarried(t *testing.T) {
	p, a := netip.MustParsePrefix, netip.MustParseAddr
	all := desired.State{
		Networks: []desired.Network{{ID: "net", Type: "L2Bridge",
			Subnets: []desired.Subnet{{Prefix: p("10.244.1.0/24"), Gateway: a("10.244.1.1")},
				{Prefix: p("fd00:10:244:1::/64"), Gateway: a("fd00:10:244:1::1")}}}},
		Namespaces: []desired.Namespace{{ID: "first", Path: "/var/run/netns/1"},
			{ID: "second", Path: "/var/run/netns/2"}},
		Endpoints: []desired.Endpoint{{ID: "e1", Network: "net", Namespace: "first",
			Addrs: []netip.Prefix{p("10.244.1.11/24"), p("fd00:10:244:1::11/64")},
			OutboundNAT: []desired.OutboundNAT{{Exceptions: []netip.Prefix{p("10.244.0.0/16")}},
				{Destinations: []netip.Prefix{p("10.244.1.11/32"), p("10.99.0.0/24")}}},
			PortMappings: []desired.PortMapping{{Protocol: 6, ExternalPort: 8080, InternalPort: 80},
				{Protocol: 6, ExternalPort: 8081, InternalPort: 80, VIP: a("10.99.0.21")}},
			ACLs: []desired.ACL{{Priority: 100, Protocols: []uint8{17}},
				{In: true, Priority: 100, Protocols: []uint8{17}}}}},
	}
	twin := all.Endpoints[0]
	twin.ID, twin.Namespace, twin.Addrs = "e2", "second", []netip.Prefix{p("10.244.1.12/24")}
	all.Endpoints = append(all.Endpoints, twin)
	facts := kernel.Facts{Uplink: "eth0", Node: a("10.99.0.21"), MTU: 1500, NetnsDir: "/var/run/netns"}
	have := countedAll(render.All(all, facts)) // the node has no IPv6 address: nothing gets it as its source

	rules, ok := Of(all, "e1", facts, have)
	seen := map[uint64]string{}
	for _, r := range rules.Rules {
		text := r.Layer + " " + r.Way + " " + r.Match
		if r.Missing || seen[r.Packets] != "" {
			t.Errorf("%s: missing %v, the counts of %q", text, r.Missing, seen[r.Packets])
		}
		seen[r.Packets] = text
	}
	// IPv4 has two ACLs, three rules of NAT and two port mappings; IPv6 two ACLs and the mapping of any address.
	if !ok || len(rules.Rules) != 10 {
		t.Errorf("rules: %v, %+v", ok, rules.Rules)
	}

	rules, _ = Of(all, "e2", facts, have)
	taken := slices.DeleteFunc(rules.Rules, func(r Rule) bool { return !r.Missing })
	if len(taken) != 2 || !strings.HasPrefix(taken[0].Match, "tcp port 8080") || taken[0].Packets != 0 {
		t.Errorf("missing of the endpoint whose ports are taken: %+v", taken)
	}
}

// countedAll is a kernel that has all that is rendered, with a different count for each rule and element.
func countedAll(r *render.Rendering) map[string]table.Counts {
	have, n := map[string]table.Counts{}, uint64(0)
	for _, x := range r.Families() {
		c := table.Counts{Rules: map[string][]table.Count{}, Elems: map[table.Place]table.Count{}}
		for name, chain := range x.Rules.Chains {
			for range chain.Rules {
				n++
				c.Rules[name] = append(c.Rules[name], table.Count{Packets: n})
			}
		}
		for name, set := range x.Rules.Sets {
			for key := range set.Elems {
				n++
				c.Elems[table.Place{Set: name, Key: key}] = table.Count{Packets: n}
			}
		}
		have[x.Family.Table] = c
	}
	return have
}
