package vxlan

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Mode is vxlan on one Windows node. It implements keep.Mode.
type Mode = hostSwitch

// New returns the mode for one node.
func New(o Options) (*Mode, error) { return newSwitch(o, uplinkOf) }

// Period bounds how long a wrong policy stays: HNS does not notify of them.
const Period = 5 * time.Second

// uplinkOf returns the adapter that has an address.
func uplinkOf(addr netip.Addr) (Uplink, error) {
	adapters, err := net.Interfaces()
	if err != nil {
		return Uplink{}, fmt.Errorf("listing network adapters: %w", err)
	}
	for _, a := range adapters {
		addrs, err := a.Addrs()
		if err != nil {
			return Uplink{}, fmt.Errorf("listing the addresses of %s: %w", a.Name, err)
		}
		for _, have := range addrs {
			if n, ok := have.(*net.IPNet); ok && n.IP.Equal(addr.AsSlice()) {
				return Uplink{Index: a.Index, Name: a.Name, MTU: a.MTU}, nil
			}
		}
	}
	return Uplink{}, fmt.Errorf("no network adapter has the node's address %s", addr)
}
