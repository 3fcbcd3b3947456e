package podnet

import (
	"net/netip"

	"porthole.dev/porthole/hns"
)

// Network is the pod network that a mode wants on a node.
type Network struct {
	HNS  hns.Network  // Windows: the network, found by its name
	Host hns.Endpoint // Windows: the host's own endpoint in it

	// CNI configurations, of which each system writes its own.
	LinuxConf, WindowsConf Conf

	// Outbound says which packets leave a Linux node with its address, if not those of the node's own pods; nil: those.
	Outbound *Options
}

// HostEndpoint is the name of the host's own endpoint. Upstream's kube-proxy looks for this name too.
const HostEndpoint = NetworkName + "_ep"

// hostEndpointOf returns the host's endpoint. Its default route has the next hop 0.0.0.0, as in microsoft/SDN start-kubelet.ps1.
// Without a route of its own HNS would use the subnet's gateway, an address that nobody has on these networks, and give the host a
// second default route through it (flannel-io/flannel#1763).
func hostEndpointOf(o Options) hns.Endpoint {
	return hns.Endpoint{
		Name: HostEndpoint, Addrs: []netip.Addr{o.HostAddr()}, PrefixLen: o.PodCIDR.Bits(),
		Routes: []hns.Route{{Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), NextHop: netip.IPv4Unspecified()}},
	}
}

// Bridged returns the pod network of the modes that encapsulate nothing: pods are on a bridge, on Windows on a network of
// type L2Bridge.
func Bridged(o Options) (Network, error) {
	linux, err := o.linuxConf()
	if err != nil {
		return Network{}, err
	}
	windows, err := o.windowsConf()
	if err != nil {
		return Network{}, err
	}

	return Network{
		HNS: hns.Network{
			Name: NetworkName, Type: hns.L2Bridge,
			Subnets: []hns.Subnet{{Prefix: o.PodCIDR.Masked(), Gateway: o.Gateway()}},
		},
		Host:      hostEndpointOf(o),
		LinuxConf: linux, WindowsConf: windows,
	}, nil
}
