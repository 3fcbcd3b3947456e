package podnet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
)

// HostEndpoint is the name of the host's own endpoint, under which upstream's kube-proxy looks for it as well.
const HostEndpoint = NetworkName + "_ep"

// hnsNetworks and hnsHost are what is needed of HNS; hns/hcn talks to Windows, hns/hnstest fakes it.
type hnsNetworks interface {
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	CreateNetwork(ctx context.Context, network hns.Network) (hns.Network, error)
	DeleteNetwork(ctx context.Context, id hns.NetworkID) error
	Endpoints(ctx context.Context, network hns.NetworkID) ([]hns.Endpoint, error)
}

type hnsHost interface {
	CreateEndpoint(ctx context.Context, endpoint hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(ctx context.Context, id hns.EndpointID) error
	Namespaces(ctx context.Context) ([]hns.Namespace, error)
	AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error
}

// HNS is both.
type HNS interface {
	hnsNetworks
	hnsHost
}

// EnsureHNS makes the L2Bridge network of the pod range and the host's endpoint in it, attached to the host's
// compartment. What is right is left alone; a network of our name with another range is replaced together with
// its endpoints. A network that could not be looked up is never replaced. Changed tells whether anything was written.
func EnsureHNS(ctx context.Context, client HNS, o Options) (changed bool, err error) {
	network, made, err := ensureNetwork(ctx, client, o)
	if err != nil {
		return made, err
	}
	attached, err := ensureHostEndpoint(ctx, client, network, o)
	return made || attached, err
}

func ensureNetwork(ctx context.Context, client hnsNetworks, o Options) (hns.Network, bool, error) {
	wanted := hns.Network{Name: NetworkName, Type: hns.L2Bridge, Subnets: []hns.Subnet{{Prefix: o.PodCIDR.Masked(), Gateway: o.Gateway()}}}
	have, err := client.NetworkByName(ctx, NetworkName)
	switch {
	case err == nil && matches(have, wanted):
		return have, false, nil
	case err == nil:
		if err := clear(ctx, client, have); err != nil {
			return have, false, err
		}
	case !hns.IsAbsent(err):
		return have, false, fmt.Errorf("looking up HNS network %s: %w", NetworkName, err)
	}
	made, err := client.CreateNetwork(ctx, wanted)
	if err != nil {
		return made, false, fmt.Errorf("creating HNS network %s of %s: %w", NetworkName, o.PodCIDR, err)
	}
	return made, true, nil
}

func matches(have, wanted hns.Network) bool {
	return have.Type == wanted.Type && slices.ContainsFunc(have.Subnets, func(s hns.Subnet) bool {
		return s.Prefix.Masked() == wanted.Subnets[0].Prefix && s.Gateway == wanted.Subnets[0].Gateway
	})
}

// clear deletes a network of our name with its endpoints: HNS refuses to delete one whose endpoints are attached.
func clear(ctx context.Context, client hnsNetworks, network hns.Network) error {
	if host, ok := client.(hnsHost); ok {
		endpoints, err := client.Endpoints(ctx, network.ID)
		if err != nil {
			return fmt.Errorf("listing endpoints of HNS network %s: %w", network.Name, err)
		}
		for _, e := range endpoints {
			if err := host.DeleteEndpoint(ctx, e.ID); err != nil && !hns.IsAbsent(err) {
				return fmt.Errorf("deleting endpoint %s of HNS network %s: %w", e.Name, network.Name, err)
			}
		}
	}
	if err := client.DeleteNetwork(ctx, network.ID); err != nil && !hns.IsAbsent(err) {
		return fmt.Errorf("deleting HNS network %s, which has another range: %w", network.Name, err)
	}
	return nil
}

func ensureHostEndpoint(ctx context.Context, client HNS, network hns.Network, o Options) (changed bool, err error) {
	endpoints, err := client.Endpoints(ctx, network.ID)
	if err != nil {
		return false, fmt.Errorf("listing endpoints of HNS network %s: %w", network.Name, err)
	}
	host, err := hostNamespace(ctx, client)
	if err != nil {
		return false, err
	}
	var endpoint hns.Endpoint
	for _, e := range endpoints {
		if e.Name == HostEndpoint && !e.Remote {
			endpoint = e
		}
	}
	if endpoint.ID == "" {
		endpoint, err = client.CreateEndpoint(ctx, hns.Endpoint{
			Name: HostEndpoint, Network: network.ID, Addrs: []netip.Addr{o.HostAddr()}, PrefixLen: o.PodCIDR.Bits(),
		})
		if err != nil {
			return false, fmt.Errorf("creating host endpoint %s at %s: %w", HostEndpoint, o.HostAddr(), err)
		}
		changed = true
	}
	if hns.NormalID(string(endpoint.Namespace)) == hns.NormalID(string(host.ID)) || slices.Contains(host.Endpoints, endpoint.ID) {
		return changed, nil
	}
	if err := client.AddToNamespace(ctx, host.ID, endpoint.ID); err != nil {
		return changed, fmt.Errorf("attaching host endpoint %s to the host: %w", HostEndpoint, err)
	}
	return true, nil
}

func hostNamespace(ctx context.Context, client hnsHost) (hns.Namespace, error) {
	all, err := client.Namespaces(ctx)
	if err != nil {
		return hns.Namespace{}, fmt.Errorf("listing HNS namespaces: %w", err)
	}
	for _, kind := range []string{"HostDefault", "Host"} {
		for _, n := range all {
			if n.Type == kind {
				return n, nil
			}
		}
	}
	return hns.Namespace{}, fmt.Errorf("HNS lists %d namespaces and none is the host's own", len(all))
}
