package hnstest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
)

// networkTypes are the types that HNS makes networks of.
var networkTypes = []string{"NAT", "ICS", "Transparent", hns.L2Bridge, hns.L2Tunnel, hns.Overlay, "Private", "Internal"}

// Networks implements the method of hcn.Client.
func (f *Fake) Networks(ctx context.Context) ([]hns.Network, error) {
	return listing(ctx, f, "list networks", func() []hns.Network { return slices.Clone(f.networks) })
}

// NetworkByName implements the method of hcn.Client.
func (f *Fake) NetworkByName(ctx context.Context, name string) (hns.Network, error) {
	return doing(ctx, f, "find network", func(Outcome) (hns.Network, error) {
		for _, n := range f.networks {
			if n.Name == name {
				return n, nil
			}
		}
		return hns.Network{}, fail(hns.Absent, 0, "find network %s", name)
	})
}

// CreateNetwork implements the method of hcn.Client. It refuses a type that HNS does not know, subnets that are not
// valid or overlap with each other or with those of another network (unverified, no. 66; the emulated HNS does so with
// the profile ws2022-subnets), and a name or id that another network has.
func (f *Fake) CreateNetwork(ctx context.Context, network hns.Network) (hns.Network, error) {
	return doing(ctx, f, "create network", func(Outcome) (hns.Network, error) {
		if network.Type == "" {
			network.Type = "NAT"
		}
		if network.Adapter != "" && len(f.Cards) > 0 && !slices.Contains(f.Cards, network.Adapter) {
			return hns.Network{}, fail(hns.Invalid, hns.CodeNoAdapter, "create network %s on %s", network.Name,
				network.Adapter)
		}
		if err := f.checkNetwork(network); err != nil {
			return hns.Network{}, err
		}

		if network.ID == "" {
			network.ID = hns.NetworkID(f.newID())
		}
		if network.Type == hns.Overlay && !f.LateProvider {
			f.next++
			network.Management = f.Provider
			network.RouterMAC = fmt.Sprintf("00-15-5D-00-00-%02X", f.next)
		}
		f.networks = append(f.networks, network)
		return network, nil
	})
}

// checkNetwork returns the error with which HNS refuses a new network, nil if it accepts it. The codes are those of
// HNS.
func (o *objects) checkNetwork(network hns.Network) error {
	doing := "create network " + network.Name
	if !slices.Contains(networkTypes, network.Type) {
		return fail(hns.Invalid, 0x803b000b, "%s of type %s", doing, network.Type)
	}

	var taken []netip.Prefix
	for _, other := range o.networks {
		if other.Name == network.Name || network.ID != "" && other.ID == network.ID {
			return fail(hns.Exists, 0x803b0010, "%s", doing)
		}
		for _, s := range other.Subnets {
			taken = append(taken, s.Prefix)
		}
	}

	for _, s := range network.Subnets {
		switch {
		case !s.Prefix.IsValid():
			return fail(hns.Invalid, 0x803b0032, "%s", doing)
		case network.Type == hns.Overlay && s.VSID != 0 && s.VSID < 4096: // flannel-io/flannel#1215; unverified, no. 81
			return fail(hns.Invalid, 0x57, "%s of VSID %d", doing, s.VSID)
		case network.Type == hns.Overlay && s.Prefix.Addr().Is6():
			return fail(hns.Invalid, 0x803b0030, "%s of %s", doing, s.Prefix)
		case slices.ContainsFunc(taken, s.Prefix.Overlaps):
			return fail(hns.Invalid, 0x803b0032, "%s of %s", doing, s.Prefix)
		}
		taken = append(taken, s.Prefix)
	}
	return nil
}

// DeleteNetwork implements the method of hcn.Client. A network with an endpoint that is in a namespace is refused;
// endpoints that are in none go with their network. One that is gone is success.
func (f *Fake) DeleteNetwork(ctx context.Context, id hns.NetworkID) error {
	return f.change(ctx, "delete network", func() error {
		inUse := func(e hns.Endpoint) bool { return e.Network == id && e.Namespace != "" }
		if slices.ContainsFunc(f.endpoints, inUse) {
			return fail(hns.Unknown, 0x803b002c, "delete network %s", id)
		}

		f.endpoints = slices.DeleteFunc(f.endpoints, func(e hns.Endpoint) bool { return e.Network == id })
		f.networks = slices.DeleteFunc(f.networks, func(n hns.Network) bool { return n.ID == id })
		return nil
	})
}

// DumpNetworks prints the networks with their subnets and endpoints, one line each, sorted.
func (f *Fake) DumpNetworks() string {
	f.mu.Lock()
	defer f.mu.Unlock()

	var lines []string
	for _, n := range f.networks {
		line := fmt.Sprintf("network %s %s", n.Name, n.Type)
		for _, s := range n.Subnets {
			line += fmt.Sprintf(" %s via %v", s.Prefix, s.Gateway)
			if s.VSID != 0 {
				line += fmt.Sprintf(" vsid %d", s.VSID)
			}
		}
		if n.HostRoute {
			line += " with host route"
		}
		for _, r := range n.RemoteSubnets {
			lines = append(lines, fmt.Sprintf("network %s remote subnet %s vsid %d at %s %s\n", n.Name, r.Prefix,
				r.VSID, r.Provider, r.MAC))
		}
		lines = append(lines, line+"\n")

		for _, e := range f.endpoints {
			if e.Network != n.ID {
				continue
			}
			line := fmt.Sprintf("network %s endpoint %q %v", n.Name, e.Name, e.Addrs)
			if e.Namespace != "" {
				line += " in " + f.namespaceType(e.Namespace)
			}
			lines = append(lines, line+"\n")
		}
	}

	slices.Sort(lines)
	return strings.Join(lines, "")
}
