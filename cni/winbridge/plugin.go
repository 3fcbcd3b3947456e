// Package winbridge is the CNI plugin for pods on L2Bridge networks: one HNS endpoint per sandbox, put into the sandbox's
// namespace.
//
//	ADD  find the network → find or make the endpoint (address, policies: plan.go) → put it into the namespace
//	DEL  take it out → delete it → release the address, in this order: an address is free only when nobody answers for it
//
// Every call may be repeated. A look-up that fails stops the call: it never means that something is not there.
package winbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// host is the part of HNS that the plugin uses; hns/hcn implements it, hns/hnstest in tests.
type host interface {
	Version(context.Context) (hns.Version, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	Endpoints(context.Context, hns.NetworkID) ([]hns.Endpoint, error)
	EndpointByName(ctx context.Context, name string) (hns.Endpoint, error)
	CreateEndpoint(context.Context, hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(context.Context, hns.EndpointID) error
	Namespace(context.Context, hns.NamespaceID) (hns.Namespace, error)
	AddToNamespace(context.Context, hns.NamespaceID, hns.EndpointID) error
	RemoveFromNamespace(context.Context, hns.NamespaceID, hns.EndpointID) error
}

// Plugin carries out CNI calls.
type Plugin struct{ Host host }

// Call is what the runtime gives with every call.
type Call struct {
	Container string
	Namespace string // GUID; may be empty for Del
	Interface string
	Config    *contract.Config
}

func (c Call) name() string { return endpointName(c.Container, c.Config.Name) }

func (c Call) namespace() (hns.NamespaceID, error) {
	id := hns.NormalID(c.Namespace)
	if len(id) != 36 || strings.Count(id, "-") != 4 {
		return "", fmt.Errorf("network namespace %q is no GUID: this plugin serves containerd, which names HCN namespaces", c.Namespace)
	}
	return hns.NamespaceID(id), nil
}

// Add gives the sandbox its endpoint. When it fails, nothing that it made is left, and nothing that was there is touched.
func (p *Plugin) Add(ctx context.Context, c Call) (*types100.Result, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	network, err := p.network(ctx, c.Config.Name)
	if err != nil {
		return nil, err
	}
	found, err := p.Host.EndpointByName(ctx, c.name())
	switch {
	case hns.IsAbsent(err):
		return p.make(ctx, c, network, namespace)
	case err != nil:
		return nil, err
	case found.Network != network.ID:
		// The network was made anew and this endpoint is a leftover of the old one.
		if err := p.Host.DeleteEndpoint(ctx, found.ID); err != nil {
			return nil, err
		}
		return p.make(ctx, c, network, namespace)
	}
	if err := p.Host.AddToNamespace(ctx, namespace, found.ID); err != nil {
		return nil, err
	}
	return result(network, found, namespace, c)
}

func (p *Plugin) network(ctx context.Context, name string) (hns.Network, error) {
	network, err := p.Host.NetworkByName(ctx, name)
	if err != nil {
		return network, err
	}
	if network.Type != hns.L2Bridge && network.Type != hns.L2Tunnel {
		return network, fmt.Errorf("network %s is of type %s: win-bridge serves L2Bridge and L2Tunnel", name, network.Type)
	}
	if len(network.Subnets) == 0 {
		return network, fmt.Errorf("network %s has no subnet", name)
	}
	return network, nil
}

func (p *Plugin) make(ctx context.Context, c Call, network hns.Network, namespace hns.NamespaceID) (*types100.Result, error) {
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return nil, err
	}
	version := hns.Version{}
	if c.Config.LoopbackDSR { // nothing else here depends on it
		if version, err = p.Host.Version(ctx); err != nil {
			return nil, err
		}
	}
	subnet := network.Subnets[0]
	addresses, err := pool.Claim(c.Container, c.Interface, subnet.Gateway, gateway(subnet.Prefix, netip.Addr{}))
	if err != nil {
		return nil, err
	}
	undo := func(cause error) error { return errors.Join(cause, pool.Release(c.Container, c.Interface)) }
	doc, err := endpoint(c.Config, network, port{c.name(), addresses[0].Prefix, gateway(addresses[0].Prefix, addresses[0].Gateway)}, version)
	if err != nil {
		return nil, undo(err)
	}
	made, err := p.create(ctx, doc)
	if err != nil {
		// Only when HNS surely has no endpoint may the address go to another pod; DEL comes after a failed ADD.
		if hns.ClassOf(err) == hns.Unknown {
			return nil, err
		}
		return nil, undo(err)
	}
	if err := p.Host.AddToNamespace(ctx, namespace, made.ID); err != nil {
		if gone := p.Host.DeleteEndpoint(ctx, made.ID); gone != nil {
			return nil, errors.Join(err, gone)
		}
		return nil, undo(err)
	}
	return result(network, made, namespace, c)
}

// create makes the endpoint. An address that is in use is held by an endpoint whose pod is gone, if by anything:
// addresses come from our own store. Such an endpoint is removed, when it is in no live namespace.
func (p *Plugin) create(ctx context.Context, doc hns.Endpoint) (hns.Endpoint, error) {
	made, err := p.Host.CreateEndpoint(ctx, doc)
	if class := hns.ClassOf(err); class != hns.Invalid && class != hns.Exists {
		return made, err
	}
	list, listing := p.Host.Endpoints(ctx, doc.Network)
	if listing != nil {
		return made, errors.Join(err, listing)
	}
	for _, e := range list {
		if e.Remote || !e.Has(doc.Addrs[0]) || !strings.HasSuffix(e.Name, doc.Name[strings.LastIndex(doc.Name, "_"):]) {
			continue
		}
		if e.Namespace != "" {
			if _, gone := p.Host.Namespace(ctx, e.Namespace); !hns.IsAbsent(gone) {
				return made, fmt.Errorf("address %s is held by endpoint %s in namespace %s: %w", doc.Addrs[0], e.Name, e.Namespace, err)
			}
		}
		if gone := p.Host.DeleteEndpoint(ctx, e.ID); gone != nil {
			return made, errors.Join(err, gone)
		}
		return p.Host.CreateEndpoint(ctx, doc)
	}
	return made, err
}

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
	return &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: c.Interface, Mac: strings.ReplaceAll(strings.ToLower(e.MAC), "-", ":"), Sandbox: string(namespace)}},
		IPs:        []*types100.IPConfig{config},
	}, nil
}

// Del removes the sandbox's endpoint and then its address; what is gone already is no error.
func (p *Plugin) Del(ctx context.Context, c Call) error {
	e, err := p.Host.EndpointByName(ctx, c.name())
	if err != nil && !hns.IsAbsent(err) {
		return err
	}
	if err == nil {
		if err := p.remove(ctx, e); err != nil {
			return err
		}
	}
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return err
	}
	return pool.Release(c.Container, c.Interface)
}

func (p *Plugin) remove(ctx context.Context, e hns.Endpoint) error {
	if e.Namespace != "" {
		if err := p.Host.RemoveFromNamespace(ctx, e.Namespace, e.ID); err != nil {
			return err
		}
	}
	return p.Host.DeleteEndpoint(ctx, e.ID)
}

// Check fails when the sandbox's network is not what Add said.
func (p *Plugin) Check(ctx context.Context, c Call) error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	network, err := p.network(ctx, c.Config.Name)
	if err != nil {
		return err
	}
	e, err := p.Host.EndpointByName(ctx, c.name())
	if err != nil {
		return err
	}
	if e.Network != network.ID {
		return fmt.Errorf("endpoint %s is on network %s, wanted is %s", e.Name, e.Network, network.ID)
	}
	if e.Namespace != namespace {
		return fmt.Errorf("endpoint %s is in namespace %q, wanted is %s", e.Name, e.Namespace, namespace)
	}
	var prev types100.Result
	if len(c.Config.PrevResult) > 0 {
		if err := json.Unmarshal(c.Config.PrevResult, &prev); err != nil {
			return fmt.Errorf("reading prevResult: %w", err)
		}
	}
	pool, err := ipam.Open(c.Config.IPAM, c.Config.Name)
	if err != nil {
		return err
	}
	for _, ip := range prev.IPs {
		if ip == nil {
			return errors.New("reading prevResult: an address in it is null")
		}
		addr, _ := netip.AddrFromSlice(ip.Address.IP)
		addr = addr.Unmap()
		if !e.Has(addr) {
			return fmt.Errorf("endpoint %s has addresses %v, wanted is %s", e.Name, e.Addrs, addr)
		}
		if held, err := pool.Holds(c.Container, c.Interface, addr); err != nil || !held {
			return errors.Join(fmt.Errorf("address %s is not reserved for container %s", addr, c.Container), err)
		}
	}
	return nil
}

// Status fails when Add could not work.
func (p *Plugin) Status(ctx context.Context, config *contract.Config) error {
	if _, err := p.network(ctx, config.Name); err != nil {
		return err
	}
	pool, err := ipam.Open(config.IPAM, config.Name)
	if err != nil {
		return err
	}
	return pool.Ready()
}

// GC removes the endpoints and addresses of all sandboxes that the runtime does not know.
func (p *Plugin) GC(ctx context.Context, config *contract.Config) error {
	valid := map[string]bool{}
	for _, a := range config.ValidAttachments {
		valid[a.ContainerID] = true
	}
	network, err := p.network(ctx, config.Name)
	if err != nil {
		return err
	}
	list, err := p.Host.Endpoints(ctx, network.ID)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		container, ours := strings.CutSuffix(e.Name, endpointName("", config.Name))
		if e.Remote || !ours || valid[container] {
			continue
		}
		if err := p.remove(ctx, e); err != nil {
			errs = append(errs, err)
			valid[container] = true // its address stays with it
		}
	}
	pool, err := ipam.Open(config.IPAM, config.Name)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, pool.Keep(valid))...)
}
