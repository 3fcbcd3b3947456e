package podnet

import (
	"net/netip"

	"porthole.dev/porthole/hns"
)

// Network is the pod network that a mode wants on a node.
type Network struct {
	HNS  hns.Network  // Windows: the network, found by its name
	Host hns.Endpoint // Windows: the host's own endpoint in it
	// Apart: the host's endpoint is in no compartment. It only holds an address, the source address of the service
	// proxy.
	Apart bool
	// Base is a network that is there first and stays over reboots; the zero Network: none.
	Base hns.Network

	// CNI configurations, of which each system writes its own.
	LinuxConf, WindowsConf Conf

	// Outbound says which packets leave a Linux node with its address, if not those of the node's own pods; nil: those.
	Outbound *Options
}

// HostEndpoint is the name of the host's own endpoint. Upstream's kube-proxy looks for this name too.
const HostEndpoint = NetworkName + "_ep"

// hostEndpointOf returns the host's endpoint. Its default route has the next hop 0.0.0.0, as in microsoft/SDN
// start-kubelet.ps1. Without a route of its own HNS would use the subnet's gateway, an address that nobody has on
// these networks, and give the host a second default route through it (flannel-io/flannel#1763).
func hostEndpointOf(o Options) hns.Endpoint {
	e := hns.Endpoint{Name: HostEndpoint, PrefixLen: o.PodCIDR.Bits()}
	for _, r := range o.ranges() {
		anywhere := netip.IPv4Unspecified()
		if r.Addr().Is6() {
			anywhere = netip.IPv6Unspecified()
		}
		e.Addrs = append(e.Addrs, hns.Subnet{Prefix: r}.HostAddr())
		e.Routes = append(e.Routes, hns.Route{Destination: netip.PrefixFrom(anywhere, 0), NextHop: anywhere})
	}
	return e
}

// Bridged returns the pod network of the modes that encapsulate nothing: pods are on a bridge, on Windows on a network
// of type L2Bridge.
func Bridged(o Options) (Network, error) {
	linux, err := o.linuxConf()
	if err != nil {
		return Network{}, err
	}
	windows, err := o.windowsConf()
	if err != nil {
		return Network{}, err
	}

	network := hns.Network{Name: NetworkName, Type: hns.L2Bridge}
	for _, r := range o.ranges() {
		network.Subnets = append(network.Subnets, hns.Subnet{Prefix: r, Gateway: r.Addr().Next()})
	}
	return Network{
		HNS:       network,
		Host:      hostEndpointOf(o),
		LinuxConf: linux, WindowsConf: windows,
	}, nil
}

// baseNetwork is the name of the network that keeps the virtual switch of overlay networks over reboots.
const baseNetwork = NetworkName + "-base"

// Overlay returns the pod network of a mode whose nodes are joined by VXLAN: on Linux pods are on a bridge, on Windows
// on a network of type Overlay with that VXLAN network identifier.
//
// The Windows network is gone after a reboot, as flannel's is, because its policies name peers that may have changed
// meanwhile. HNS interrupts the node's network when it makes the first network on an adapter and when it removes the
// last one, so there is another network that stays, with a range that nobody uses (microsoft/SDN start.ps1 and
// OVN-Kubernetes' hybrid overlay do so too).
func Overlay(o Options, vni uint32) (Network, error) {
	linux, err := o.linuxConf()
	if err != nil {
		return Network{}, err
	}
	windows, err := o.overlayConf()
	if err != nil {
		return Network{}, err
	}

	host := hostEndpointOf(o)
	host.Routes = nil // nothing is sent from it
	return Network{
		HNS: hns.Network{
			Name: NetworkName, Type: hns.Overlay, Transient: true, HostRoute: true,
			Subnets: []hns.Subnet{{Prefix: o.PodCIDR.Masked(), Gateway: o.Gateway(), VSID: vni}},
		},
		Host: host, Apart: true,
		Base: hns.Network{
			Name: baseNetwork, Type: hns.Overlay,
			Subnets: []hns.Subnet{{Prefix: basePrefix, Gateway: basePrefix.Addr().Next(), VSID: baseVSID}},
		},
		LinuxConf: linux, WindowsConf: windows,
	}, nil
}

// The range and the virtual subnet of the network that stays: those of microsoft/SDN's scripts.
var basePrefix = netip.MustParsePrefix("192.168.255.0/30")

const baseVSID = 9999
