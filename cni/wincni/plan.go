// Package wincni attaches pods as Microsoft's first CNI plugin did, wincni.exe, whose configurations are still in use.
// It differs from win-bridge in the pods' gateway and in the search list.
package wincni

import (
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/cni/winbridge"
	"porthole.dev/porthole/hns"
)

// Kind is any network on which packets leave a pod as they are, or behind the host's address.
type Kind struct{}

// types of networks that wincni was used with: its configurations name the network after its type.
var types = []string{hns.L2Bridge, hns.L2Tunnel, hns.Transparent, "NAT"}

// Accepts implements attach.Kind.
func (Kind) Accepts(network hns.Network) error {
	if !slices.Contains(types, network.Type) {
		return fmt.Errorf("network %s is of type %s: wincni serves %v", network.Name, network.Type, types)
	}
	return nil
}

// Endpoint returns an endpoint whose gateway is ipam.routes[0].GW, or ipam.gateway, or else the address after that of
// the subnet, in this order. The first search domain gets the pod's namespace in front, unless the runtime gives a
// list of its own.
func (Kind) Endpoint(pod attach.Pod) (hns.Endpoint, error) {
	if gw := pod.RouteGateway; gw.IsValid() &&
		!slices.ContainsFunc(pod.Addresses, func(a ipam.Address) bool { return a.Prefix.Contains(gw) }) {
		return hns.Endpoint{}, fmt.Errorf(
			"ipam routes[0].GW %s is in none of the pods' subnets, for example %s: HNS needs a gateway on the link", gw,
			pod.Addresses[0].Prefix.Masked())
	}
	e, err := winbridge.Bridged(pod, func(a ipam.Address) netip.Addr { return gateway(pod, a) })
	if err != nil {
		return e, err
	}

	if len(pod.Config.RuntimeConfig.DNS.Searches) == 0 && len(e.DNS.Search) > 0 && pod.Namespace != "" {
		e.DNS.Search = slices.Clone(e.DNS.Search)
		e.DNS.Search[0] = pod.Namespace + "." + e.DNS.Search[0]
	}
	return e, nil
}

func gateway(pod attach.Pod, a ipam.Address) netip.Addr {
	switch {
	case a.Prefix.Contains(pod.RouteGateway):
		return pod.RouteGateway
	case a.Gateway.IsValid():
		return a.Gateway
	}
	return a.Prefix.Masked().Addr().Next()
}
