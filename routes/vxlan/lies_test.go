package vxlan

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/routes/plantest"
	"porthole.dev/porthole/routes/table"
)

// told are the annotations by which a node of a random test announces itself.
func told(_ string, public netip.Addr, mac string) map[string]string {
	return announced(public.String(), fmt.Sprintf(`{"VNI":4096,"VtepMAC":%q}`, mac))
}

// optionsOf returns the options of the honest node on which a random test runs, and its MAC address.
func optionsOf(t *testing.T, l *plantest.Lies) (Options, MAC) {
	self := l.Honest[slices.IndexFunc(l.Honest, func(n table.Node) bool { return n.Name == l.Self })]
	a, _, err := Read(self.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Node: l.Self, Addr: self.Addr, Config: Default, Cluster: l.Pods, Ranges: l.Cluster()}, a.MAC
}

// TestLyingNodesKernel: no node can take what another has on a Linux host, by its ranges, addresses or MAC addresses.
func TestLyingNodesKernel(t *testing.T) {
	plantest.Play(t, told, func(l *plantest.Lies) func([]table.Node) []table.Route {
		o, mac := optionsOf(t, l)
		k := Kernel{Uplink: Uplink{Index: 2, Name: "eth0", MTU: 1500},
			Device: Device{Index: 5, MAC: mac, MTU: 1450, Up: true, VXLAN: true, VNI: 4096, Port: 4789, Local: o.Addr,
				Uplink: 2}}
		return func(nodes []table.Node) []table.Route {
			for _, op := range PlanKernel(o, nodes, k).Ops {
				k = applied(k, op)
			}
			return leadsTo(k)
		}
	})
}

// applied returns a host after a change of its entries.
func applied(k Kernel, op Op) Kernel {
	switch op.Verb {
	case SetNeighbour, DeleteNeighbour:
		k.Neighbours = slices.DeleteFunc(k.Neighbours, func(n Neighbour) bool { return n.Addr == op.Neighbour.Addr })
	case SetForward, DeleteForward:
		k.Forwards = slices.DeleteFunc(k.Forwards, func(f Forward) bool { return f.MAC == op.Forward.MAC })
	case SetRoute, DeleteRoute:
		k.Routes = slices.DeleteFunc(k.Routes, func(r Route) bool { return r.Dst == op.Route.Dst })
	}
	switch op.Verb {
	case SetNeighbour:
		k.Neighbours = append(k.Neighbours, op.Neighbour)
	case SetForward:
		k.Forwards = append(k.Forwards, op.Forward)
	case SetRoute:
		k.Routes = append(k.Routes, op.Route)
	}
	return k
}

// leadsTo returns where the routes of a host lead, by its neighbours and forwarding entries.
func leadsTo(k Kernel) (routes []table.Route) {
	for _, r := range k.Routes {
		to := netip.Addr{}
		for _, n := range k.Neighbours {
			for _, f := range k.Forwards {
				if n.Addr == r.Via && f.MAC == n.MAC {
					to = f.Public
				}
			}
		}
		routes = append(routes, table.Route{Dst: r.Dst, NextHop: to, Ours: true})
	}
	return routes
}

// TestLyingNodesOverlay is the same on a Windows host.
func TestLyingNodesOverlay(t *testing.T) {
	plantest.Play(t, told, func(l *plantest.Lies) func([]table.Node) []table.Route {
		o, mac := optionsOf(t, l)
		seen := Overlay{Network: hns.Network{RouterMAC: mac.String()}}
		return func(nodes []table.Node) (routes []table.Route) {
			for _, op := range PlanOverlay(o, nodes, seen).Ops {
				switch op.Verb {
				case RemovePolicy:
					seen.Network.RemoteSubnets = slices.DeleteFunc(seen.Network.RemoteSubnets,
						func(r hns.RemoteSubnet) bool { return r == op.Remote })
				case AddPolicy:
					seen.Network.RemoteSubnets = append(seen.Network.RemoteSubnets, op.Remote)
				}
			}
			for _, r := range seen.Network.RemoteSubnets {
				routes = append(routes, table.Route{Dst: r.Prefix, NextHop: r.Provider, Ours: true})
			}
			return routes
		}
	})
}
