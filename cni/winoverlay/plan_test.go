package winoverlay

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

var overlay = hns.Network{ID: "net-1", Name: "flannel.4096", Type: hns.Overlay,
	Management: netip.MustParseAddr("192.0.2.2"),
	Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"), Gateway: netip.MustParseAddr("10.244.2.1"),
		VSID: 4096}}}

func parse(t *testing.T, extra string) *contract.Config {
	t.Helper()
	c, err := contract.Parse([]byte(fmt.Sprintf(`{"cniVersion":"1.0.0","name":"flannel.4096","type":"win-overlay",
		"ipam":{"type":"host-local","dataDir":%q,"subnet":"10.244.2.0/24"}%s}`, t.TempDir(), extra)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		network hns.Network
		want    string // part of the error
	}{
		{overlay, ""},
		{hns.Network{Name: "a", Type: "overlay", Management: overlay.Management}, ""},
		{hns.Network{Name: "a", Type: hns.Overlay}, "has no provider address yet"},
		{hns.Network{Name: "a", Type: hns.L2Bridge}, "is of type L2Bridge: win-overlay serves Overlay"},
	} {
		err := Kind{}.Accepts(c.network)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.network, err, c.want)
		}
	}
}

func TestEndpoint(t *testing.T) {
	provider := hns.Policy{Type: "ProviderAddress", Settings: []byte(`{"ProviderAddress":"192.0.2.2"}`)}
	nat := func(exceptions string) hns.Policy {
		return hns.Policy{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":[` + exceptions + `]}`)}
	}
	pod := ipam.Address{Prefix: netip.MustParsePrefix("10.244.2.17/24"), Gateway: netip.MustParseAddr("10.244.2.9")}
	for name, c := range map[string]struct {
		config, mac string
		policies    []hns.Policy
	}{
		"nothing but the network": {"", "0E-2A-0A-F4-02-11", []hns.Policy{provider}},
		"as flannel's delegate writes it": {
			`,"apiVersion":2,"ipMasq":true,"ipMasqNetwork":"10.244.0.0/16","capabilities":{"dns":true}`,
			"0E-2A-0A-F4-02-11", []hns.Policy{nat(`"10.244.0.0/16"`), provider}},
		"upstream's example": {`,"endpointMacPrefix":"0E-3B","ipMasq":true,"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.96.0.0/12"]}}},
			{"name":"EndpointPolicy","value":{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.2"}}}]`,
			"0E-3B-0A-F4-02-11", []hns.Policy{nat(`"10.96.0.0/12","10.244.2.0/24"`), provider}},
		"flannel's older form": {`,"policies":[{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","ExceptionList":["10.244.0.0/16","10.96.0.0/12"]}},
			{"name":"EndpointPolicy","value":{"Type":"PA","PA":"192.0.2.2"}}]`, "0E-2A-0A-F4-02-11",
			[]hns.Policy{nat(`"10.244.0.0/16","10.96.0.0/12"`),
				{Type: "ProviderAddress", Settings: []byte(`{"ProviderAddress":"192.0.2.2"}`)}}},
	} {
		got, err := Kind{}.Endpoint(attach.Pod{Config: parse(t, c.config), Network: overlay,
			Addresses: []ipam.Address{pod}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}

		want := hns.Endpoint{Addrs: []netip.Addr{pod.Prefix.Addr()}, PrefixLen: 24, MAC: c.mac, Policies: c.policies,
			Routes: []hns.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"),
				NextHop: netip.MustParseAddr("10.244.2.1")}}}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	six := ipam.Address{Prefix: netip.MustParsePrefix("fd00::7/64")}
	four := ipam.Address{Prefix: netip.MustParsePrefix("10.244.2.17/24")}
	for name, c := range map[string]struct {
		config    string
		addresses []ipam.Address
		want      string
	}{
		"IPv6":         {"", []ipam.Address{six}, "has one, of IPv4"},
		"two families": {"", []ipam.Address{four, six}, "has one, of IPv4"},
		"a MAC prefix of text": {`,"endpointMacPrefix":"0x-3B"`, []ipam.Address{four},
			`endpointMacPrefix "0x-3B" is not of the form 0E-2A`},
		"a long MAC prefix": {`,"endpointMacPrefix":"0E-2A-01"`, []ipam.Address{four}, `is not of the form`},
	} {
		_, err := Kind{}.Endpoint(attach.Pod{Config: parse(t, c.config), Network: overlay, Addresses: c.addresses})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A pod comes and goes on an overlay network.
func TestPod(t *testing.T) {
	ctx, h := context.Background(), hnstest.New(hns.Version{Major: 13, Minor: 3}, overlay)
	const namespace = "7f4c0000-0000-4000-8000-000000000001"
	h.AddNamespace(namespace)
	p := attach.Plugin{Kind: Kind{}, Reader: h, Writer: h, Rules: hnstest.Rules{Fake: h}, Fields: Fields}
	call := attach.Call{Container: "abc", Namespace: namespace, Interface: "eth0", Config: parse(t, "")}

	if _, err := p.Add(ctx, call); err != nil {
		t.Fatal(err)
	}
	want :=
		"network flannel.4096 Overlay 10.244.2.0/24 via 10.244.2.1 vsid 4096\nnetwork flannel.4096 endpoint \"abc_flannel.4096\" [10.244.2.3] in Guest\n"
	if diff := cmp.Diff(want, h.DumpNetworks()); diff != "" {
		t.Errorf("after ADD (-want +got):\n%s", diff)
	}
	if err := p.Check(ctx, call); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	if err := p.Del(ctx, call); err != nil || h.Dump() != "" {
		t.Errorf("DEL: %v, left %s", err, h.Dump())
	}
}
