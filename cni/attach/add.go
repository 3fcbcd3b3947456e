package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// Add gives the sandbox its endpoint. It returns when HNS reports the endpoint's policies and no broken state. If it
// fails, it deletes what it made, and does not touch what was there.
func (p *Plugin) Add(ctx context.Context, c Call) (*types100.Result, error) {
	at, err := p.place(c, true)
	if err != nil {
		return nil, err
	}
	network, err := p.network(ctx, c.Config.Name)
	if err != nil {
		return nil, err
	}

	found, err := p.Reader.EndpointByName(ctx, endpointName(at.sandbox, c.Config.Name))
	switch {
	case at.joins && err == nil && found.Network == network.ID:
		return result(network, found, at, c)
	case at.joins && (err == nil || hns.IsAbsent(err)):
		return nil, fmt.Errorf("container %s joins the network of sandbox %s, which has no endpoint on network %s",
			c.Container, at.sandbox, c.Config.Name)
	case hns.IsAbsent(err):
		return p.attachNew(ctx, c, network, at)
	case err != nil:
		return nil, err
	case found.Network != network.ID:
		// The endpoint belongs to a network of this name that has been replaced since.
		if err := p.Writer.DeleteEndpoint(ctx, found.ID); err != nil {
			return nil, err
		}
		return p.attachNew(ctx, c, network, at)
	}

	if err := p.adopt(ctx, c, network, at, found); err != nil {
		return nil, err
	}
	return result(network, found, at, c)
}

// adopt puts an endpoint of an earlier ADD into the namespace and sees that it has its policies. Others that it has
// stay.
func (p *Plugin) adopt(ctx context.Context, c Call, network hns.Network, at place, found hns.Endpoint) error {
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return err
	}
	wanted, err := p.wanted(ctx, c, network, pool, pool.Of(found.Addrs))
	if err != nil {
		return err
	}
	return p.enter(ctx, at, wanted, found.ID)
}

// enter puts an endpoint into the namespace, if the runtime does not do so itself, and sees that it has the wanted
// policies.
func (p *Plugin) enter(ctx context.Context, at place, wanted hns.Endpoint, id hns.EndpointID) error {
	if at.namespace != "" {
		if err := p.Writer.AddToNamespace(ctx, at.namespace, id); err != nil {
			return err
		}
	}
	return p.inForce(ctx, wanted, id)
}

// network finds the network that the configuration names.
func (p *Plugin) network(ctx context.Context, name string) (hns.Network, error) {
	network, err := p.Reader.NetworkByName(ctx, name)
	if err != nil {
		return network, p.withNetworks(ctx, name, err)
	}
	if err := p.Kind.Accepts(network); err != nil {
		return network, err
	}
	if len(network.Subnets) == 0 {
		return network, fmt.Errorf("network %s has no subnet", name)
	}
	return network, nil
}

// withNetworks adds the names of the host's networks to the error of a name that none of them has.
func (p *Plugin) withNetworks(ctx context.Context, name string, cause error) error {
	all, ok := p.Reader.(lister)
	if !ok || !hns.IsAbsent(cause) {
		return cause
	}
	list, err := all.Networks(ctx)
	if err != nil {
		return cause
	}

	const what = "%w: the configuration's name is that of an HNS network, and HNS has none called %q"
	if len(list) == 0 {
		return fmt.Errorf(what+", nor any other: `porthole routes` makes that of the cluster", cause, name)
	}
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = fmt.Sprintf("%q (%s)", n.Name, n.Type)
	}
	slices.Sort(names)
	return fmt.Errorf(what+": it has %s", cause, name, strings.Join(names, ", "))
}

// wanted returns the endpoint that a pod with these addresses has to have.
func (p *Plugin) wanted(ctx context.Context, c Call, network hns.Network, pool *ipam.Pool,
	addresses []ipam.Address) (hns.Endpoint, error) {
	pod := Pod{Config: c.Config, Network: network, Addresses: addresses, RouteGateway: pool.RouteGateway,
		Namespace: c.argument("K8S_POD_NAMESPACE")}
	if len(addresses) == 0 {
		return hns.Endpoint{}, fmt.Errorf("the endpoint of sandbox %s has no address of the configuration's ranges",
			c.Container)
	}
	if c.Config.LoopbackDSR { // nothing else here depends on it
		var err error
		if pod.HNS, err = p.Reader.Version(ctx); err != nil {
			return hns.Endpoint{}, err
		}
	}
	return p.Kind.Endpoint(pod)
}

// attachNew makes an endpoint and puts it into the namespace.
func (p *Plugin) attachNew(ctx context.Context, c Call, network hns.Network, at place) (*types100.Result, error) {
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return nil, err
	}
	var taken []netip.Addr
	for _, subnet := range network.Subnets {
		taken = append(taken, subnet.Gateway, subnet.HostAddr())
	}
	addresses, err := pool.Claim(c.Container, c.Interface, taken...)
	if err != nil {
		return nil, err
	}

	release := func(cause error) error { return errors.Join(cause, pool.Release(c.Container, c.Interface)) }
	wanted, err := p.wanted(ctx, c, network, pool, addresses)
	if err != nil {
		return nil, release(err)
	}
	wanted.Name = endpointName(c.Container, c.Config.Name)
	wanted.Network = network.ID
	made, err := p.create(ctx, wanted)
	if err != nil {
		// Only if HNS surely has no endpoint may the address go to another pod. DEL comes after a failed ADD.
		if hns.ClassOf(err) == hns.Unknown {
			return nil, err
		}
		return nil, release(err)
	}

	if err := p.enter(ctx, at, wanted, made.ID); err != nil {
		if gone := p.Writer.DeleteEndpoint(ctx, made.ID); gone != nil {
			return nil, errors.Join(err, gone)
		}
		return nil, release(err)
	}
	return result(network, made, at, c)
}

// create makes the endpoint. Addresses come from our own store: one that is in use in HNS is held by an endpoint whose
// pod is gone. Such an endpoint is deleted if it is in no live namespace.
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
		if e.Remote || !sharesAddress(e, wanted) || !strings.HasSuffix(e.Name, ours) {
			continue
		}
		if e.Namespace != "" {
			if _, gone := p.Reader.Namespace(ctx, e.Namespace); !hns.IsAbsent(gone) {
				return made, fmt.Errorf("address %s is held by endpoint %s in namespace %s: %w", wanted.Addrs[0],
					e.Name, e.Namespace, err)
			}
		}
		if gone := p.Writer.DeleteEndpoint(ctx, e.ID); gone != nil {
			return made, errors.Join(err, gone)
		}
		return p.Writer.CreateEndpoint(ctx, wanted)
	}
	return made, portConflict(err, wanted, list)
}

// sharesAddress reports whether two endpoints have an address in common.
func sharesAddress(e, wanted hns.Endpoint) bool {
	for _, a := range wanted.Addrs {
		if e.Has(a) {
			return true
		}
	}
	return false
}

// result returns the CNI result of an endpoint: its addresses with the prefix lengths of the network's subnets, and
// the gateway of their family. An address of no subnet has the whole length of its family.
func result(network hns.Network, e hns.Endpoint, at place, c Call) (*types100.Result, error) {
	if len(e.Addrs) == 0 {
		return nil, fmt.Errorf("endpoint %s has no address", e.Name)
	}
	mac := strings.ReplaceAll(strings.ToLower(e.MAC), "-", ":")
	r := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: c.Interface, Mac: mac, Sandbox: string(at.namespace)}},
	}

	for _, addr := range e.Addrs {
		bits := addr.BitLen()
		for _, subnet := range network.Subnets {
			if subnet.Prefix.Contains(addr) {
				bits = subnet.Prefix.Bits()
				break
			}
		}
		config := &types100.IPConfig{
			Interface: types100.Int(0),
			Address:   net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())},
		}
		for _, route := range e.Routes {
			if route.NextHop.Is4() == addr.Is4() && route.Destination.Bits() == 0 {
				config.Gateway = route.NextHop.AsSlice()
				break
			}
		}
		r.IPs = append(r.IPs, config)
	}

	r.DNS = cnitypes.DNS{Nameservers: e.DNS.Servers, Domain: e.DNS.Domain, Search: e.DNS.Search, Options: e.DNS.Options}
	return r, nil
}
