package podnet

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/hns"
)

// NetworkName is the name of the HNS network and of the CNI configuration.
const NetworkName = "porthole"

// Options describe this node and its cluster.
type Options struct {
	PodCIDR  netip.Prefix   // this node's range, IPv4, required; at most /29, so that pods have room
	Cluster  netip.Prefix   // all pods, required
	Services netip.Prefix   // all service addresses, required
	Node     netip.Addr     // the node's own address, required
	Underlay []netip.Prefix // what is reached without NAT besides pods and services: the segment of the nodes
	Second   Second         // what it has of IPv6; zero: nothing
	DNS      []string       // name servers of the cluster, in order; none: pods get none from CNI
	Search   []string       // DNS search list that goes with them
	MTU      int            // of pods, on Linux; 0: as the node's own interface has it
	DataDir  string         // where host-local keeps the addresses in use, on Linux; empty: its default
}

// Second is what a node and its cluster have of IPv6 beside IPv4.
type Second struct {
	PodCIDR, Cluster, Services netip.Prefix // zero PodCIDR: the node has IPv4 only
	Node                       netip.Addr
}

// ranges returns the node's pod ranges, of IPv4 and, if it has one, of IPv6.
func (o Options) ranges() []netip.Prefix {
	list := []netip.Prefix{o.PodCIDR.Masked()}
	if o.Second.PodCIDR.IsValid() {
		list = append(list, o.Second.PodCIDR.Masked())
	}
	return list
}

// Validate returns an error if the options cannot make a network.
func (o Options) Validate() error {
	switch {
	case !o.PodCIDR.IsValid() || !o.PodCIDR.Addr().Is4():
		return fmt.Errorf("pod range %s is not an IPv4 range", o.PodCIDR)
	case o.PodCIDR.Bits() > 29:
		return fmt.Errorf(
			"pod range %s is too small: network, gateway, host endpoint and broadcast leave no address (at most /29)",
			o.PodCIDR)
	case !o.Cluster.IsValid() || !o.Services.IsValid() || !o.Node.IsValid():
		return fmt.Errorf("the pod network needs the cluster's range, the services' range and the node's address")
	}

	switch s := o.Second; {
	case s == Second{}:
	case !s.PodCIDR.IsValid() || !s.PodCIDR.Addr().Is6():
		return fmt.Errorf("second pod range %s is not an IPv6 range", s.PodCIDR)
	case s.PodCIDR.Bits() > 125:
		return fmt.Errorf("pod range %s is too small: gateway and host endpoint leave no address (at most /125)",
			s.PodCIDR)
	case !s.Cluster.IsValid() || !s.Services.IsValid() || !s.Node.IsValid():
		return fmt.Errorf(
			"the pod range %s needs the cluster's range, the services' range and the node's address of IPv6 too",
			s.PodCIDR)
	}
	return nil
}

// Gateway returns the first address of the range. HNS keeps it for itself; on Linux the bridge has it.
func (o Options) Gateway() netip.Addr { return o.PodCIDR.Masked().Addr().Next() }

// HostAddr returns the address of the host's endpoint on Windows, which is the gateway of the pods.
func (o Options) HostAddr() netip.Addr { return hns.Subnet{Prefix: o.PodCIDR}.HostAddr() }

// Host6 is HostAddr of IPv6; zero if the node has none.
func (o Options) Host6() netip.Addr {
	if !o.Second.PodCIDR.IsValid() {
		return netip.Addr{}
	}
	return hns.Subnet{Prefix: o.Second.PodCIDR}.HostAddr()
}

// FirstPod returns the first address that Windows pods get.
func (o Options) FirstPod() netip.Addr { return o.HostAddr().Next() }

// exceptions6 is Exceptions for IPv6; none if the node has none.
func (o Options) exceptions6() []netip.Prefix {
	if !o.Second.PodCIDR.IsValid() {
		return nil
	}
	list := []netip.Prefix{o.Second.Cluster.Masked(), o.Second.Services.Masked()}
	for _, u := range o.Underlay {
		if u.Addr().Is6() {
			list = append(list, u.Masked())
		}
	}
	return list
}

// Exceptions returns the destinations of IPv4 that pods reach with their own address.
func (o Options) Exceptions() []netip.Prefix {
	list := []netip.Prefix{o.Cluster.Masked(), o.Services.Masked()}
	for _, u := range o.Underlay {
		if u.Addr().Is4() {
			list = append(list, u.Masked())
		}
	}
	return list
}
