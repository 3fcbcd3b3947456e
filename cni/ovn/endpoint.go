package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
)

// Endpoints makes pods' interfaces in HNS: an endpoint of a Transparent network whose switch extension is Open
// vSwitch. Reader and Writer are the same client.
type Endpoints struct {
	Reader reader
	Writer writer
}

// reader reads from HNS. hns/hcn implements it, and hns/hnstest in tests.
type reader interface {
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	EndpointByName(ctx context.Context, name string) (hns.Endpoint, error)
}

// writer changes HNS, and is implemented by the same types. Deleting what is gone is success.
type writer interface {
	CreateEndpoint(context.Context, hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(context.Context, hns.EndpointID) error
	AddToNamespace(context.Context, hns.NamespaceID, hns.EndpointID) error
}

// ethernetMTU is the MTU of HNS's endpoints in bytes. The policy EncapOverhead makes it smaller.
const ethernetMTU = 1500

// Make implements links. The endpoint has the name of the port, by which the switch extension finds it. An endpoint of
// that name with another network, address or MAC is replaced.
func (e Endpoints) Make(ctx context.Context, l Link) error {
	network, err := e.network(ctx, l)
	if err != nil {
		return err
	}
	namespace := hns.NormalID(l.Namespace)
	if len(namespace) != 36 || strings.Count(namespace, "-") != 4 {
		return fmt.Errorf(
			"network namespace %q is not a GUID: this plugin serves containerd, which names HCN namespaces",
			l.Namespace)
	}

	wanted := l.endpoint(network)
	found, err := e.Reader.EndpointByName(ctx, l.Name)
	switch {
	case err == nil && (found.Network != network.ID || !found.Has(l.Addr.Addr()) ||
		hns.NormalMAC(found.MAC) != wanted.MAC):
		// Its network was replaced, or an earlier attempt was made before the pod's address changed.
		if err := e.Writer.DeleteEndpoint(ctx, found.ID); err != nil {
			return err
		}
		fallthrough
	case hns.IsAbsent(err):
		if found, err = e.Writer.CreateEndpoint(ctx, wanted); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	err = e.Writer.AddToNamespace(ctx, hns.NamespaceID(namespace), found.ID)
	if hns.IsAttached(err) {
		return nil
	}
	return err
}

// network returns the HNS network of the pods. It returns an error if the network has no switch extension or no subnet
// for the pod.
func (e Endpoints) network(ctx context.Context, l Link) (hns.Network, error) {
	network, err := e.Reader.NetworkByName(ctx, l.Network)
	if err != nil {
		return network, err
	}
	fits := func(s hns.Subnet) bool { return s.Prefix.Contains(l.Addr.Addr()) }
	switch {
	case network.Type != hns.Transparent:
		return network, fmt.Errorf(
			"HNS network %s is of type %s: OVN needs a Transparent one, whose switch extension is Open vSwitch",
			network.Name, network.Type)
	case network.Extension == "":
		return network, fmt.Errorf(
			"HNS network %s has no switch extension: pods would be in the segment of the card and not in OVN",
			network.Name)
	case !slices.ContainsFunc(network.Subnets, fits):
		return network, fmt.Errorf(
			"HNS network %s has no subnet with the pod's address %s: was the node's pod range changed?", network.Name,
			l.Addr.Addr())
	}
	return network, nil
}

func (l Link) endpoint(network hns.Network) hns.Endpoint {
	e := hns.Endpoint{Name: l.Name, Network: network.ID, Addrs: []netip.Addr{l.Addr.Addr()}, PrefixLen: l.Addr.Bits(),
		MAC:    hns.NormalMAC(l.MAC),
		Routes: []hns.Route{{Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), NextHop: l.Gateway}},
		DNS:    hns.DNS{Domain: l.DNS.Domain, Search: l.DNS.Search, Servers: l.DNS.Nameservers, Options: l.DNS.Options}}
	if l.MTU > 0 && l.MTU < ethernetMTU {
		settings, _ := json.Marshal(map[string]int{"Overhead": ethernetMTU - l.MTU}) // numbers cannot fail
		e.Policies = append(e.Policies, hns.Policy{Type: "EncapOverhead", Settings: settings})
	}
	return e
}

// Check implements links.
func (e Endpoints) Check(ctx context.Context, l Link) error {
	found, err := e.Reader.EndpointByName(ctx, l.Name)
	switch {
	case err != nil:
		return err
	case !found.Has(l.Addr.Addr()):
		return fmt.Errorf("HNS endpoint %s has the addresses %v and not %s", l.Name, found.Addrs, l.Addr.Addr())
	case found.Namespace == "":
		return fmt.Errorf("HNS endpoint %s is in no namespace", l.Name)
	case found.State.Broken() != "":
		return fmt.Errorf("HNS endpoint %s is %s", l.Name, found.State.Broken())
	}
	return nil
}

// Delete implements links.
func (e Endpoints) Delete(ctx context.Context, l Link) error {
	found, err := e.Reader.EndpointByName(ctx, l.Name)
	if hns.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.Writer.DeleteEndpoint(ctx, found.ID)
}
