package winbridge

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

func parse(t *testing.T, extra string) *contract.Config {
	t.Helper()
	c, err := contract.Parse([]byte(fmt.Sprintf(`{"cniVersion":"1.0.0","name":"porthole","type":"win-bridge",
		"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.244.2.0/24","rangeStart":"10.244.2.3"}]]}%s}`, t.TempDir(), extra)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Row 1.62.
func TestAccepts(t *testing.T) {
	for kind, want := range map[string]bool{hns.L2Bridge: true, hns.L2Tunnel: true, hns.Overlay: false, "NAT": false,
		"": false} {
		if err := (Kind{}).Accepts(hns.Network{Type: kind}); (err == nil) != want {
			t.Errorf("network of type %q: %v", kind, err)
		}
	}
}

func TestEndpoint(t *testing.T) {
	prefix, gateway := netip.MustParsePrefix("10.244.2.7/24"), netip.MustParseAddr("10.244.2.9")
	for name, c := range map[string]struct {
		config string
		at     ipam.Address
		want   hns.Endpoint
	}{
		"the host's endpoint is the gateway": {"", ipam.Address{Prefix: prefix}, hns.Endpoint{
			Addrs: []netip.Addr{prefix.Addr()}, PrefixLen: 24,
			Routes: []hns.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"),
				NextHop: netip.MustParseAddr("10.244.2.2")}}}},
		"a configured gateway": {"", ipam.Address{Prefix: prefix, Gateway: gateway}, hns.Endpoint{
			Addrs: []netip.Addr{prefix.Addr()}, PrefixLen: 24,
			Routes: []hns.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"), NextHop: gateway}}}},
		"IPv6": {"", ipam.Address{Prefix: netip.MustParsePrefix("fd00::7/64")}, hns.Endpoint{
			Addrs: []netip.Addr{netip.MustParseAddr("fd00::7")}, PrefixLen: 64,
			Routes: []hns.Route{{Destination: netip.MustParsePrefix("::/0"),
				NextHop: netip.MustParseAddr("fd00::2")}}}},
		"DNS and a host port": {
			`,"dns":{"nameservers":["10.96.0.10"]},"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80}]}`,
			ipam.Address{Prefix: prefix}, hns.Endpoint{
				Addrs: []netip.Addr{prefix.Addr()}, PrefixLen: 24, DNS: hns.DNS{Servers: []string{"10.96.0.10"}},
				Routes: []hns.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"),
					NextHop: netip.MustParseAddr("10.244.2.2")}},
				Policies: []hns.Policy{{Type: "PortMapping",
					Settings: []byte(`{"Protocol":6,"InternalPort":80,"ExternalPort":8080,"VIP":""}`)}}}},
	} {
		got, err := Kind{}.Endpoint(attach.Pod{Config: parse(t, c.config), Addresses: []ipam.Address{c.at},
			HNS: hns.Version{Major: 13, Minor: 3}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}

		if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A pod comes and goes on a bridged network.
func TestPod(t *testing.T) {
	ctx, h := context.Background(), hnstest.New(hns.Version{Major: 13, Minor: 3},
		hns.Network{ID: "net-1", Name: "porthole", Type: hns.L2Bridge,
			Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"),
				Gateway: netip.MustParseAddr("10.244.2.1")}}})
	const namespace = "7f4c0000-0000-4000-8000-000000000001"
	h.AddNamespace(namespace)
	p := attach.Plugin{Kind: Kind{}, Reader: h, Writer: h, Rules: hnstest.Rules{Fake: h}}
	call := attach.Call{Container: "abc", Namespace: namespace, Interface: "eth0", Config: parse(t, "")}

	if _, err := p.Add(ctx, call); err != nil {
		t.Fatal(err)
	}
	want :=
		"network porthole L2Bridge 10.244.2.0/24 via 10.244.2.1\nnetwork porthole endpoint \"abc_porthole\" [10.244.2.3] in Guest\n"
	if diff := cmp.Diff(want, h.DumpNetworks()); diff != "" {
		t.Errorf("after ADD (-want +got):\n%s", diff)
	}
	if err := p.Del(ctx, call); err != nil || h.Dump() != "" {
		t.Errorf("DEL: %v, left %s", err, h.Dump())
	}
}
