package ovn

import (
	"context"
	"fmt"
	"net/netip"

	"porthole.dev/porthole/internal/platform"
)

// Veth makes pods' interfaces on Linux. It acts in the host's network namespace, which is the caller's.
type Veth struct{}

// Make implements links.
func (Veth) Make(_ context.Context, l Link) error {
	there, err := platform.LinkExists(l.Name)
	if err != nil {
		return err
	}
	if !there { // else an earlier attempt made both ends, and ended before the rest
		if err := platform.CreateVeth(l.Name, l.Guest, l.Namespace); err != nil {
			return err
		}
	}

	err = platform.InNetns(l.Namespace, func() error {
		if l.Userspace {
			if err := platform.StopChecksumOffload(l.Guest); err != nil {
				return err
			}
		}
		if err := platform.ConfigureLink(l.Guest, l.MAC, l.MTU); err != nil {
			return err
		}
		if err := platform.LinkUp(l.Guest); err != nil {
			return err
		}
		if err := platform.SetAddress(l.Guest, l.Addr); err != nil {
			return err
		}
		return platform.SetRoute(netip.PrefixFrom(netip.IPv4Unspecified(), 0), l.Gateway)
	})
	if err != nil {
		return fmt.Errorf("interface %s of the pod: %w", l.Guest, err)
	}

	if err := platform.ConfigureLink(l.Name, "", l.MTU); err != nil {
		return err
	}
	if l.Userspace {
		if err := platform.DropIngress(l.Name); err != nil {
			return err
		}
	}
	return platform.LinkUp(l.Name)
}

// Check implements links.
func (Veth) Check(_ context.Context, l Link) error {
	there, err := platform.LinkExists(l.Name)
	if err == nil && !there {
		err = fmt.Errorf("interface %s of the host is gone", l.Name)
	}
	if err != nil {
		return err
	}
	return platform.InNetns(l.Namespace, func() error {
		there, err := platform.LinkExists(l.Guest)
		if err == nil && !there {
			err = fmt.Errorf("interface %s of the pod is gone", l.Guest)
		}
		return err
	})
}

// Delete implements links. The chain that drops what comes in goes with the interface.
func (Veth) Delete(_ context.Context, l Link) error { return platform.DeleteLink(l.Name) }
