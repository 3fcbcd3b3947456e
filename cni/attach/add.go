package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Add gives the sandbox its endpoint. If it fails, nothing that it made is left, and nothing that was there is touched.
func (p *Plugin) Add(ctx context.Context, c Call) (*types100.Result, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	network, err := p.network(ctx, c.Config.Name)
	if err != nil {
		return nil, err
	}

	found, err := p.Reader.EndpointByName(ctx, c.endpoint())
	switch {
	case hns.IsAbsent(err):
		return p.attachNew(ctx, c, network, namespace)
	case err != nil:
		return nil, err
	case found.Network != network.ID:
		// The endpoint belongs to a network of this name that has been replaced since.
		if err := p.Writer.DeleteEndpoint(ctx, found.ID); err != nil {
			return nil, err
		}
		return p.attachNew(ctx, c, network, namespace)
	}

	if err := p.Writer.AddToNamespace(ctx, namespace, found.ID); err != nil {
		return nil, err
	}
	return result(network, found, namespace, c)
}

// network finds the network that the configuration names.
func (p *Plugin) network(ctx context.Context, name string) (hns.Network, error) {
	network, err := p.Reader.NetworkByName(ctx, name)
	if err != nil {
		return network, err
	}
	if err := p.Kind.Accepts(network); err != nil {
		return network, err
	}
	if len(network.Subnets) == 0 {
		return network, fmt.Errorf("network %s has no subnet", name)
	}
	return network, nil
}

// attachNew makes an endpoint and puts it into the namespace.
func (p *Plugin) attachNew(ctx context.Context, c Call, network hns.Network, namespace hns.NamespaceID) (*types100.Result, error) {
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return nil, err
	}
	version := hns.Version{}
	if c.Config.LoopbackDSR { // nothing else here depends on it
		if version, err = p.Reader.Version(ctx); err != nil {
			return nil, err
		}
	}
	subnet := network.Subnets[0]
	addresses, err := pool.Claim(c.Container, c.Interface, subnet.Gateway, subnet.HostAddr())
	if err != nil {
		return nil, err
	}
	release := func(cause error) error { return errors.Join(cause, pool.Release(c.Container, c.Interface)) }

	wanted, err := p.Kind.Endpoint(c.Config, network, addresses[0], version)
	if err != nil {
		return nil, release(err)
	}
	wanted.Name, wanted.Network = c.endpoint(), network.ID
	made, err := p.create(ctx, wanted)
	if err != nil {
		// Only if HNS surely has no endpoint may the address go to another pod. DEL comes after a failed ADD.
		if hns.ClassOf(err) == hns.Unknown {
			return nil, err
		}
		return nil, release(err)
	}

	if err := p.Writer.AddToNamespace(ctx, namespace, made.ID); err != nil {
		if gone := p.Writer.DeleteEndpoint(ctx, made.ID); gone != nil {
			return nil, errors.Join(err, gone)
		}
		return nil, release(err)
	}
	return result(network, made, namespace, c)
}

// create makes the endpoint. Addresses come from our own store: one that is in use in HNS is held by an endpoint whose pod is
// gone. Such an endpoint is deleted if it is in no live namespace.
func (p *Plugin) create(ctx context.Context, wanted hns.Endpoint) (hns.Endpoint, error) {
	made, err := p.Writer.CreateEndpoint(ctx, wanted)
	if class := hns.ClassOf(err); class != hns.Invalid && class != hns.Exists {
		return made, err
	}
	list, listing := p.Reader.Endpoints(ctx, wanted.Network)
	if listing != nil {
		return made, errors.Join(err, listing)
	}

	ours := wanted.Name[strings.LastIndex(wanted.Name, "_"):]
	for _, e := range list {
		if e.Remote || !e.Has(wanted.Addrs[0]) || !strings.HasSuffix(e.Name, ours) {
			continue
		}
		if e.Namespace != "" {
			if _, gone := p.Reader.Namespace(ctx, e.Namespace); !hns.IsAbsent(gone) {
				return made, fmt.Errorf("address %s is held by endpoint %s in namespace %s: %w", wanted.Addrs[0], e.Name, e.Namespace, err)
			}
		}
		if gone := p.Writer.DeleteEndpoint(ctx, e.ID); gone != nil {
			return made, errors.Join(err, gone)
		}
		return p.Writer.CreateEndpoint(ctx, wanted)
	}
	return made, err
}

// result returns the CNI result of an endpoint. Its address has the prefix length of the network's first subnet, from which it
// was claimed, and its gateway is the next hop of its first route.
func result(network hns.Network, e hns.Endpoint, namespace hns.NamespaceID, c Call) (*types100.Result, error) {
	if len(e.Addrs) == 0 {
		return nil, fmt.Errorf("endpoint %s has no address", e.Name)
	}
	bits := network.Subnets[0].Prefix.Bits()
	ip := e.Addrs[0].AsSlice()
	config := &types100.IPConfig{
		Interface: types100.Int(0),
		Address:   net.IPNet{IP: ip, Mask: net.CIDRMask(bits, len(ip)*8)},
	}
	if len(e.Routes) > 0 {
		config.Gateway = e.Routes[0].NextHop.AsSlice()
	}

	mac := strings.ReplaceAll(strings.ToLower(e.MAC), "-", ":")
	return &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: c.Interface, Mac: mac, Sandbox: string(namespace)}},
		IPs:        []*types100.IPConfig{config},
	}, nil
}
