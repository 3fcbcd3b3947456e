package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// overlayID is the VSID of the pods' network on every Overlay host: flannel's least on Windows.
const overlayID = 4096

// hidePods takes the router's way to the pods of an Overlay host away: only the overlay leads to them.
func (l *Lab) hidePods(m *member) error {
	return platform.InNetns(l.netns("sw"), func() error {
		if err := netlink.RouteDel(&netlink.Route{Dst: platform.IPNet(m.pods), Gw: m.addr.AsSlice()}); err != nil {
			return fmt.Errorf("hiding the pods of %s: %w", m.name, err)
		}
		return nil
	})
}

// JoinOverlay tells Overlay hosts of each other, as flannel does: each network gets a RemoteSubnetRoute for every
// other.
func (l *Lab) JoinOverlay(ctx context.Context, hosts ...*Host) error {
	var routes []object
	for _, h := range hosts {
		var mac string
		err := wait.For(ctx, 5*time.Second, "the router's address of "+h.Name, func(ctx context.Context) (err error) {
			mac, err = h.routerMAC(ctx)
			return err
		})
		if err != nil {
			return err
		}
		routes = append(routes, object{"Type": "RemoteSubnetRoute", "Settings": object{"IsolationId": overlayID,
			"DistributedRouterMacAddress": mac, "ProviderAddress": h.Addr.String(),
			"DestinationPrefix": h.Pods.String()}})
	}
	for i, h := range hosts {
		others := slices.Concat(routes[:i], routes[i+1:])
		err := h.HNS.Modify(ctx, Network, h.NetworkID,
			object{"ResourceType": "Policy", "RequestType": "Add", "Settings": object{"Policies": others}})
		if err != nil {
			return fmt.Errorf("telling %s of the other hosts: %w", h.Name, err)
		}
	}
	return nil
}

// routerMAC reads the policy that HNS gives an Overlay network some time after it was made.
func (h *Host) routerMAC(ctx context.Context) (string, error) {
	var have struct {
		Networks []struct {
			ID       string
			Policies []struct {
				Type     string
				Settings struct{ Address string }
			}
		}
	}
	if err := h.HNS.Control(ctx, "GET", "/dump", nil, &have); err != nil {
		return "", err
	}
	for _, n := range have.Networks {
		for _, p := range n.Policies {
			if n.ID == h.NetworkID && p.Type == "DrMacAddress" {
				return p.Settings.Address, nil
			}
		}
	}
	return "", errors.New("the network has no DrMacAddress")
}
