package hnstest

import (
	"context"
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
)

// Overlay is a Fake that can change overlay networks too, as hcn.Overlay is a Client that can.
type Overlay struct{ *Fake }

// AddRemoteSubnet implements the method of hcn.Overlay. It refuses a policy that is there exactly so, and takes a
// second one of a range.
func (f Overlay) AddRemoteSubnet(ctx context.Context, network hns.NetworkID, r hns.RemoteSubnet) error {
	return f.changeNetwork(ctx, "add remote subnet", network, func(n *hns.Network) error {
		if slices.Contains(n.RemoteSubnets, r) {
			return fail(hns.Exists, 0x803b0012, "add remote subnet %s", r.Prefix)
		}
		n.RemoteSubnets = append(slices.Clone(n.RemoteSubnets), r)
		return nil
	})
}

// RemoveRemoteSubnet implements the method of hcn.Overlay: all fields have to match.
func (f Overlay) RemoveRemoteSubnet(ctx context.Context, network hns.NetworkID, r hns.RemoteSubnet) error {
	return f.changeNetwork(ctx, "remove remote subnet", network, func(n *hns.Network) error {
		n.RemoteSubnets = slices.DeleteFunc(slices.Clone(n.RemoteSubnets),
			func(have hns.RemoteSubnet) bool { return have == r })
		return nil
	})
}

// AddHostRoute implements the method of hcn.Overlay. Versions before 9.2 do not know the policy.
func (f Overlay) AddHostRoute(ctx context.Context, network hns.NetworkID) error {
	return f.changeNetwork(ctx, "add host route", network, func(n *hns.Network) error {
		if !f.HNS.AtLeast(9, 2) {
			return fail(hns.Unsupported, 0x803b000e, "add host route")
		}
		n.HostRoute = true
		return nil
	})
}

// changeNetwork does nothing to the network, and reports success, when the call is to lie about it.
func (f Overlay) changeNetwork(ctx context.Context, what string, id hns.NetworkID, do func(*hns.Network) error) error {
	_, err := doing(ctx, f.Fake, what, func(outcome Outcome) (struct{}, error) {
		i := slices.IndexFunc(f.networks, func(n hns.Network) bool { return n.ID == id })
		switch {
		case i < 0:
			return struct{}{}, fail(hns.Absent, 0x803b0001, "%s: network %s", what, id)
		case outcome == LieAboutIt:
			return struct{}{}, nil
		}
		return struct{}{}, do(&f.networks[i])
	})
	return err
}

// Provide gives the overlay network of that name the addresses that HNS reports some time after it was made (see
// LateProvider).
func (f Overlay) Provide(name string, provider netip.Addr, mac string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.networks {
		if f.networks[i].Name == name {
			f.networks[i].Management = provider
			f.networks[i].RouterMAC = mac
		}
	}
}
