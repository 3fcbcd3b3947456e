// Package winbridge attaches pods to L2Bridge networks, as upstream's win-bridge does.
package winbridge

import (
	"fmt"
	"net/netip"

	"porthole.dev/porthole/cni/attach"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Kind is a bridged network: packets leave a pod as they are.
type Kind struct{}

// Accepts implements attach.Kind.
func (Kind) Accepts(network hns.Network) error {
	if network.Type != hns.L2Bridge && network.Type != hns.L2Tunnel {
		return fmt.Errorf("network %s is of type %s: win-bridge serves L2Bridge and L2Tunnel", network.Name, network.Type)
	}
	return nil
}

// Endpoint returns an endpoint whose gateway is the configured one, or else the host's own endpoint.
func (Kind) Endpoint(c *contract.Config, _ hns.Network, at ipam.Address, version hns.Version) (hns.Endpoint, error) {
	addr, gateway := at.Prefix.Addr(), at.Gateway
	if !gateway.IsValid() {
		gateway = hns.Subnet{Prefix: at.Prefix}.HostAddr()
	}
	policies, err := attach.Policies(c, addr, version)
	if err != nil {
		return hns.Endpoint{}, err
	}

	return hns.Endpoint{
		Addrs: []netip.Addr{addr}, PrefixLen: at.Prefix.Bits(),
		Routes: []hns.Route{attach.DefaultRoute(gateway)}, DNS: attach.DNS(c), Policies: policies,
	}, nil
}
