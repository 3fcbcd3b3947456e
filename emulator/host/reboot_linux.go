package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/platform"
)

// RebootOptions say what a reboot does to a host.
type RebootOptions struct {
	// HNS is what its Host Networking Service keeps and loses.
	HNS      serve.RebootRequest
	PowerCut bool // no service is told; always so on a host without a service manager
	// Late: the host's address is not there yet when its programs start. Rebooted.Arrive brings it.
	Late bool
}

// Rebooted is what a reboot did.
type Rebooted struct {
	BootID   uint32         `json:"bootID"`
	Services []scm.Ended    `json:"services,omitempty"` // how each ended
	Lost     map[string]int `json:"lost"`               // objects of HNS, by thing
	// Arrive gives the host its address if that is late.
	Arrive func() error `json:"-"`
}

// Reboot plays the reboot of a running host up to the moment at which its processes start again: services are told,
// all programs and containers end, the registry has the number of the next boot, HNS loses what it loses, and routes
// and settings of interfaces that programs made are gone. Whoever keeps the host's processes running must not do so
// meanwhile, and starts them again afterwards. On a host without a service manager everything ends as if the power
// were cut.
//
// The machine's clock and processor times go on, because they are Linux's.
func (h Host) Reboot(ctx context.Context, o RebootOptions) (r Rebooted, err error) {
	steps := []func() error{
		func() error {
			if h.Managed() && !o.PowerCut {
				r.Services, err = h.stopServices()
			}
			return err
		},
		func() error { return h.powerOff() },
		func() error { r.BootID, err = h.Prefix().NextBoot(); return err },
		func() error { r.Lost, err = h.rebootHNS(ctx, o.HNS); return err },
		func() error { return platform.InNetns(platform.NetnsPath(h.Netns), dropRoutes) },
		func() error {
			r.Arrive = func() error { return nil }
			if o.Late {
				r.Arrive, err = h.takeAddress()
			}
			return err
		},
	}

	for _, step := range steps {
		if err := step(); err != nil {
			return r, fmt.Errorf("rebooting host %s: %w", h.Name, err)
		}
	}
	return r, nil
}

// rebootHNS has HNS forget what it would.
func (h Host) rebootHNS(ctx context.Context, q serve.RebootRequest) (map[string]int, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	answer, err := h.HNS(ctx, "POST", "/reboot", body)
	if err != nil {
		return nil, err
	}
	var status serve.RebootStatus
	if err := json.Unmarshal(answer, &status); err != nil {
		return nil, fmt.Errorf("reading what HNS lost: %w", err)
	}
	return status.Lost, nil
}

// programRoutes is the protocol of routes that programs of the host made (package dataplane). They are in the active
// store of Windows, which does not outlive a boot.
const programRoutes = 201

func dropRoutes() error {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: programRoutes},
		netlink.RT_FILTER_PROTOCOL)
	for _, r := range routes {
		if e := netlink.RouteDel(&r); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("removing routes of programs: %w", err)
	}
	return nil
}

// takeAddress removes the host's address and the routes that depend on it. arrive adds them again.
func (h Host) takeAddress() (arrive func() error, err error) {
	var link netlink.Link
	var address netlink.Addr
	var routes []netlink.Route
	err = platform.InNetns(platform.NetnsPath(h.Netns), func() error {
		all, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, a := range all {
			if a.IP.String() == h.Address.String() {
				address = a
			}
		}
		if address.IPNet == nil {
			return fmt.Errorf("no interface has it")
		}
		if link, err = netlink.LinkByIndex(address.LinkIndex); err != nil {
			return err
		}
		if routes, err = netlink.RouteList(link, netlink.FAMILY_V4); err != nil {
			return err
		}
		return netlink.AddrDel(link, &address)
	})
	if err != nil {
		return nil, fmt.Errorf("taking the address %s away: %w", h.Address, err)
	}

	return func() error {
		err := platform.InNetns(platform.NetnsPath(h.Netns), func() error {
			errs := []error{netlink.AddrAdd(link, &netlink.Addr{IPNet: address.IPNet, Label: address.Label})}
			for _, r := range routes {
				if r.Protocol != unix.RTPROT_KERNEL && r.Protocol != programRoutes {
					errs = append(errs, netlink.RouteReplace(&r))
				}
			}
			return errors.Join(errs...)
		})
		if err != nil {
			return fmt.Errorf("giving host %s its address: %w", h.Name, err)
		}
		return nil
	}, nil
}
