// Package winbridge attaches pods to L2Bridge networks, as upstream's win-bridge does.
package winbridge

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Kind is a bridged network: packets leave a pod as they are.
type Kind struct{}

// Accepts implements attach.Kind.
func (Kind) Accepts(network hns.Network) error {
	if network.Type != hns.L2Bridge && network.Type != hns.L2Tunnel {
		return fmt.Errorf("network %s is of type %s: win-bridge serves L2Bridge and L2Tunnel", network.Name,
			network.Type)
	}
	return nil
}

// Endpoint returns an endpoint whose gateway is the configured one, or else the host's own endpoint, in each family.
func (Kind) Endpoint(pod attach.Pod) (hns.Endpoint, error) {
	return Bridged(pod, func(a ipam.Address) netip.Addr {
		if a.Gateway.IsValid() {
			return a.Gateway
		}
		return hns.Subnet{Prefix: a.Prefix}.HostAddr()
	})
}

// Bridged returns the endpoint of a pod on a bridged network, with the gateway of each address. Flags of the
// configuration that are about the gateway win over it.
func Bridged(pod attach.Pod, gateway func(ipam.Address) netip.Addr) (hns.Endpoint, error) {
	policies, err := attach.Policies(pod)
	if err != nil {
		return hns.Endpoint{}, err
	}
	more, err := attach.AdditionalRoutes(pod.Config)
	if err != nil {
		return hns.Endpoint{}, err
	}

	e := hns.Endpoint{DNS: attach.DNS(pod.Config), Policies: policies}
	e.Addrs, e.PrefixLen = attach.Addrs(pod)
	flags := pod.Config.OptionalFlags
	for _, a := range pod.Addresses {
		hop := gateway(a)
		switch {
		case bool(flags.ForceBridgeGateway):
			hop = hns.Subnet{Prefix: a.Prefix}.HostAddr()
		case bool(flags.GatewayFromAdditionalRoutes):
			continue // its default route is one of them
		}
		e.Routes = append(e.Routes, attach.DefaultRoute(hop))
	}
	e.Routes = append(e.Routes, more...)
	return e, nil
}
