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
	DNS      []string       // name servers of the cluster, in order; none: pods get none from CNI
	Search   []string       // DNS search list that goes with them
	MTU      int            // of pods, on Linux; 0: as the node's own interface has it
	DataDir  string         // where host-local keeps the addresses in use, on Linux; empty: its default
}

// Validate returns an error if the options cannot make a network.
func (o Options) Validate() error {
	switch {
	case !o.PodCIDR.IsValid() || !o.PodCIDR.Addr().Is4():
		return fmt.Errorf("pod range %s is not an IPv4 range", o.PodCIDR)
	case o.PodCIDR.Bits() > 29:
		return fmt.Errorf("pod range %s is too small: network, gateway, host endpoint and broadcast leave no address (at most /29)", o.PodCIDR)
	case !o.Cluster.IsValid() || !o.Services.IsValid() || !o.Node.IsValid():
		return fmt.Errorf("the pod network needs the cluster's range, the services' range and the node's address")
	}
	return nil
}

// Gateway returns the first address of the range. HNS keeps it for itself; on Linux the bridge has it.
func (o Options) Gateway() netip.Addr { return o.PodCIDR.Masked().Addr().Next() }

// HostAddr returns the address of the host's endpoint on Windows, which is the gateway of the pods.
func (o Options) HostAddr() netip.Addr { return hns.Subnet{Prefix: o.PodCIDR}.HostAddr() }

// FirstPod returns the first address that Windows pods get.
func (o Options) FirstPod() netip.Addr { return o.HostAddr().Next() }

// Exceptions returns the destinations that pods reach with their own address.
func (o Options) Exceptions() []netip.Prefix {
	list := []netip.Prefix{o.Cluster.Masked(), o.Services.Masked()}
	for _, u := range o.Underlay {
		if u.Addr().Is4() {
			list = append(list, u.Masked())
		}
	}
	return list
}
