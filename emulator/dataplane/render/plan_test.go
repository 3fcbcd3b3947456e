package render

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/desired"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testFacts = kernel.Facts{Uplink: "eth0", Node: netip.MustParseAddr("10.99.0.21"), MTU: 1500,
	NetnsDir: "/var/run/netns"}

func sample() desired.State {
	p, a := netip.MustParsePrefix, netip.MustParseAddr
	return desired.State{
		Networks: []desired.Network{
			{ID: "net", Type: "L2Bridge",
				Subnets: []desired.Subnet{{Prefix: p("10.244.1.0/24"), Gateway: a("10.244.1.1")}}},
			{ID: "other", Type: "Transparent"},
		},
		Namespaces: []desired.Namespace{{ID: "host", Host: true}, {ID: "pod", Path: "/var/run/netns/cni-1"},
			{ID: "own"}},
		Endpoints: []desired.Endpoint{
			{ID: "cbr0_ep", Network: "net", Namespace: "host", Addrs: []netip.Prefix{p("10.244.1.2/24")}},
			{ID: "e1", Network: "net", Namespace: "pod", Addrs: []netip.Prefix{p("10.244.1.11/24")},
				MAC: "00:15:5d:00:00:11", Gateway: a("10.244.1.2"),
				OutboundNAT: []desired.OutboundNAT{
					{Exceptions: []netip.Prefix{p("10.244.0.0/16"), p("10.244.1.0/24"), p("10.96.0.0/16")}},
					{Destinations: []netip.Prefix{p("10.244.1.11/32")}}},
				SDNRoutes:    []desired.SDNRoute{{Destination: p("10.96.0.0/16"), NeedEncap: true}},
				PortMappings: []desired.PortMapping{{Protocol: 6, ExternalPort: 8080, InternalPort: 80}},
				ACLs: []desired.ACL{{In: true, Priority: 200},
					{In: true, Allow: true, Priority: 100, Protocols: []uint8{6},
						LocalPorts: []desired.PortRange{{First: 80, Last: 80}, {First: 81, Last: 90}}}}},
			{ID: "unattached", Network: "net", Addrs: []netip.Prefix{p("10.244.1.12/24")}},
			{ID: "lost", Network: "net", Namespace: "gone", Addrs: []netip.Prefix{p("10.244.1.13/24")}},
			{ID: "far", Network: "net", Remote: true, Addrs: []netip.Prefix{p("10.244.2.11/24")}},
		},

		LoadBalancers: []desired.LoadBalancer{
			{ID: "dns", VIPs: []netip.Addr{a("10.96.0.10")}, Backends: []string{"e1", "far"}, DSR: true,
				Ports: []desired.LBPort{{Protocol: 17, ExternalPort: 53, InternalPort: 5353}}},
			{ID: "web", VIPs: []netip.Addr{a("10.96.0.20")}, Backends: []string{"far", "nobody"},
				Ports: []desired.LBPort{{Protocol: 6, ExternalPort: 80, InternalPort: 8080, VIPExternalIP: true}}},
			{ID: "port", Backends: []string{"far"},
				Ports: []desired.LBPort{{Protocol: 6, ExternalPort: 30080, InternalPort: 8080}}},
			{ID: "taken", VIPs: []netip.Addr{a("10.96.0.20")}, Backends: []string{"e1"},
				Ports: []desired.LBPort{{Protocol: 6, ExternalPort: 80, InternalPort: 80}}},
			{ID: "empty", VIPs: []netip.Addr{a("10.96.0.21")},
				Ports: []desired.LBPort{{Protocol: 6, ExternalPort: 80, InternalPort: 80}}},
		},
	}
}

func TestPlanGolden(t *testing.T) {
	full := State(sample(), testFacts)
	for _, id := range []string{"lost", "taken"} {
		if full.Rejected[id] == nil {
			t.Errorf("object %s was not rejected", id)
		}
	}
	golden(t, "full", kernel.Diff(full, kernel.NewState()))

	d := sample()
	d.LoadBalancers[0].Backends = []string{"far"}
	golden(t, "backend-gone", kernel.Diff(State(d, testFacts), full))

	d = sample()
	d.Endpoints = append(d.Endpoints[:1], d.Endpoints[2:]...)
	golden(t, "endpoint-gone", kernel.Diff(State(d, testFacts), full))

	golden(t, "all-gone", kernel.Diff(State(desired.State{}, testFacts), full))
	if plan := kernel.Diff(State(sample(), testFacts), full); len(plan) != 0 {
		t.Errorf("the same again is not nothing:\n%s", plan)
	}
}

// TestRecordLeadsToWant: once every operation of a plan is noted as done, nothing is left to do. The sample has an
// overlay and a connection that keeps its destination besides, so that each kind of resource is in a plan.
func TestRecordLeadsToWant(t *testing.T) {
	p, a := netip.MustParsePrefix, netip.MustParseAddr
	all := sample()
	all.Networks = append(all.Networks,
		desired.Network{ID: "overlay", Type: overlayType, RouterMAC: "02:00:00:00:00:01",
			Subnets: []desired.Subnet{{Prefix: p("10.245.1.0/24"), VSID: 4096}},
			RemoteSubnets: []desired.RemoteSubnet{{Prefix: p("10.245.2.0/24"), VSID: 4096, Provider: a("10.99.0.22"),
				MAC: "02:00:00:00:00:02"}}})
	all.Endpoints = append(all.Endpoints,
		desired.Endpoint{ID: "vxlan", Network: "overlay", Addrs: []netip.Prefix{p("10.245.1.11/24")},
			MAC: "02:00:00:00:01:11"})
	all.LoadBalancers[0].Backends, all.LoadBalancers[0].Ports[0].PreserveDIP = []string{"e1"}, true
	other := sample()
	other.Endpoints[0].Addrs = []netip.Prefix{p("10.244.1.3/24")}

	kinds := map[string]bool{}
	moved := other
	moved.Networks = slices.Clone(all.Networks)
	moved.Networks[2].RemoteSubnets = nil
	remade := all // its tunnel has another MAC address
	remade.Networks = slices.Clone(all.Networks)
	remade.Networks[2].RouterMAC = "02:00:00:00:00:03"

	states := []desired.State{{}, sample(), all, other, moved, remade}
	for from, have := range states {
		for to, desire := range states {
			want, now := State(desire, testFacts), State(have, testFacts)
			for _, op := range kernel.Diff(want, now) {
				kinds[strings.Join(strings.Fields(op.String())[:2], " ")] = true
				op.Record(&now, want)
			}
			if plan := kernel.Diff(want, now); len(plan) != 0 {
				t.Errorf("from %d to %d, after everything is noted:\n%s", from, to, plan)
			}
		}
	}
	for _, kind := range []string{"netns", "bridge", "address", "port", "switch", "tunnel", "peer", "path", "arrival",
		"way"} {
		if !kinds["add "+kind] || !kinds["del "+kind] {
			t.Errorf("no plan adds and deletes a %s: %v", kind, kinds)
		}
	}
}

func golden(t *testing.T, name string, plan kernel.Plan) {
	t.Helper()
	file := filepath.Join("testdata", name+".plan")
	if *update {
		if err := os.WriteFile(file, []byte(plan.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(plan.String(), "\n")); diff != "" {
		t.Errorf("plan %s (-want +got):\n%s", name, diff)
	}
}
