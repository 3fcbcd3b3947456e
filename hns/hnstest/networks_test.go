package hnstest

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/hns"
)

func network(name, kind string, prefixes ...string) hns.Network {
	n := hns.Network{Name: name, Type: kind}
	for _, text := range prefixes {
		prefix := netip.MustParsePrefix(text)
		n.Subnets = append(n.Subnets, hns.Subnet{Prefix: prefix, Gateway: prefix.Addr().Next()})
	}
	return n
}

func code(err error) uint32 {
	var e *hns.Error
	errors.As(err, &e)
	if e == nil {
		return 0
	}
	return e.Code
}

func TestCreateNetwork(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		network hns.Network
		class   hns.Class
		code    uint32
	}{
		"new":                         {network("b", hns.L2Bridge, "10.2.0.0/24"), "", 0},
		"two subnets":                 {network("b", hns.L2Bridge, "10.2.0.0/24", "fd00:2::/64"), "", 0},
		"the type is missing":         {network("b", "", "10.2.0.0/24"), "", 0},
		"a name that exists":          {network("a", hns.L2Bridge, "10.2.0.0/24"), hns.Exists, 0x803b0010},
		"a subnet of another network": {network("b", hns.L2Bridge, "10.1.0.128/25"), hns.Invalid, 0x803b0032},
		"overlapping subnets": {network("b", hns.L2Bridge, "10.2.0.0/16", "10.2.3.0/24"), hns.Invalid,
			0x803b0032},
		"a type that HNS does not know": {network("b", "L3Bridge", "10.2.0.0/24"), hns.Invalid, 0x803b000b},
		"IPv6 in an overlay":            {network("b", hns.Overlay, "fd00:2::/64"), hns.Invalid, 0x803b0030},
		"a subnet that is not valid at all": {hns.Network{Name: "b", Type: hns.L2Bridge,
			Subnets: make([]hns.Subnet, 1)}, hns.Invalid, 0x803b0032},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(hns.Version{Major: 13})
			f.Edit(func(_ *[]hns.Endpoint, _ *[]hns.LoadBalancer, networks *[]hns.Network) {
				*networks = []hns.Network{network("a", hns.L2Bridge, "10.1.0.0/24")}
			})

			made, err := f.CreateNetwork(ctx, c.network)
			if hns.ClassOf(err) != c.class || code(err) != c.code {
				t.Fatalf("%v, want %s and code %x", err, c.class, c.code)
			}
			all, listing := f.Networks(ctx)
			if listing != nil || (len(all) == 2) != (err == nil) || (made.ID != "") != (err == nil) {
				t.Errorf("made %+v, listed %+v, %v", made, all, listing)
			}
		})
	}
}

func TestDeleteNetwork(t *testing.T) {
	ctx, f := context.Background(), New(hns.Version{Major: 13})
	made, err := f.CreateNetwork(ctx, network("a", hns.L2Bridge, "10.1.0.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.CreateEndpoint(ctx,
		hns.Endpoint{Name: "a_ep", Network: made.ID, Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.2")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AddToNamespace(ctx, HostNamespace, e.ID); err != nil {
		t.Fatal(err)
	}

	err = f.DeleteNetwork(ctx, made.ID)
	if code(err) != 0x803b002c {
		t.Errorf("a network whose endpoint is in a namespace: %v", err)
	}
	want := "network a L2Bridge 10.1.0.0/24 via 10.1.0.1\nnetwork a endpoint \"a_ep\" [10.1.0.2] in HostDefault\n"
	if diff := cmp.Diff(want, f.DumpNetworks()); diff != "" {
		t.Errorf("after a refused deletion (-want +got):\n%s", diff)
	}

	if err := f.RemoveFromNamespace(ctx, HostNamespace, e.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is gone is success
		if err := f.DeleteNetwork(ctx, made.ID); err != nil || f.DumpNetworks() != "" || f.Dump() != "" {
			t.Errorf("deletion: %v, left %s%s", err, f.DumpNetworks(), f.Dump())
		}
	}
}

func TestNamespaces(t *testing.T) {
	ctx, f := context.Background(), New(hns.Version{Major: 13}, hns.Network{ID: "n", Name: "a", Type: hns.L2Bridge})
	f.AddNamespace("guest")
	e, err := f.CreateEndpoint(ctx, hns.Endpoint{Network: "n"})
	if err != nil {
		t.Fatal(err)
	}
	remote, err := f.CreateEndpoint(ctx, hns.Endpoint{Network: "n", Remote: true})
	if err != nil {
		t.Fatal(err)
	}

	for range 2 { // a second time is no change
		if err := f.AddToNamespace(ctx, "guest", e.ID); err != nil {
			t.Error(err)
		}
	}
	if err := f.AddToNamespace(ctx, HostNamespace, e.ID); code(err) != 0x803b002b {
		t.Errorf("an endpoint of another namespace: %v", err)
	}
	if err := f.AddToNamespace(ctx, HostNamespace, remote.ID); hns.ClassOf(err) != hns.Unsupported {
		t.Errorf("a remote endpoint: %v", err)
	}

	check := func(want []hns.EndpointID) {
		t.Helper()
		all, err := f.Namespaces(ctx)
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		if diff := cmp.Diff(want, append([]hns.EndpointID{}, all[1].Endpoints...)); diff != "" {
			t.Error(diff)
		}
	}
	check([]hns.EndpointID{e.ID})
	if err := f.DeleteEndpoint(ctx, e.ID); err != nil {
		t.Error(err)
	}
	check([]hns.EndpointID{})
}

func TestFaultsOfNetworks(t *testing.T) {
	ctx, f := context.Background(), New(hns.Version{Major: 13})
	f.SetFault(func(string) Outcome { return DoThenFail })
	if _, err := f.CreateNetwork(ctx, network("a", hns.L2Bridge, "10.1.0.0/24")); hns.ClassOf(err) != hns.Unknown {
		t.Errorf("creating: %v", err)
	}
	if _, err := f.Networks(ctx); hns.ClassOf(err) != hns.Unknown {
		t.Errorf("listing: %v", err)
	}

	f.SetFault(func(string) Outcome { return AnswerNothing })
	if all, err := f.Networks(ctx); err != nil || len(all) != 0 {
		t.Errorf("listing that answers nothing: %v, %v", all, err)
	}

	f.SetFault(nil)
	if all, err := f.Networks(ctx); err != nil || len(all) != 1 {
		t.Errorf("what was made in spite of the error: %v, %v", all, err)
	}
}
