// Package suite is what our products rely on of a Host Networking Service, as one set of tests for every HNS that we
// have: the fake (hns/hnstest), the emulated one (emulator/hnsd, called through hns/hcn under Wine) and that of
// Windows. A test of a product that passes on the fake means something only as far as all three pass these.
//
// It asks for what HNS was seen or documented to do, and for nothing that only one of them does.
package suite

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
)

// Host is one HNS, by the methods of hcn.Client.
type Host struct {
	Networks
	Endpoints
	Balancers
	Namespaces

	Version hns.Version
	Adapter string // for networks; "": HNS chooses one
}

// Networks are the calls about networks.
type Networks interface {
	Networks(ctx context.Context) ([]hns.Network, error)
	NetworkByName(ctx context.Context, name string) (hns.Network, error)
	NetworkIDs(ctx context.Context, name string) ([]hns.NetworkID, error)
	CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error)
	DeleteNetwork(ctx context.Context, id hns.NetworkID) error
}

// Endpoints are the calls about endpoints.
type Endpoints interface {
	Endpoints(ctx context.Context, network hns.NetworkID) ([]hns.Endpoint, error)
	EndpointIDs(ctx context.Context, network hns.NetworkID) ([]hns.EndpointID, error)
	Endpoint(ctx context.Context, id hns.EndpointID) (hns.Endpoint, error)
	EndpointByName(ctx context.Context, name string) (hns.Endpoint, error)
	CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(ctx context.Context, id hns.EndpointID) error
}

// Balancers are the calls about load balancers.
type Balancers interface {
	LoadBalancerIDs(ctx context.Context) ([]hns.LoadBalancerID, error)
	LoadBalancerOutlines(ctx context.Context) (map[hns.LoadBalancerID]uint64, error)
	LoadBalancer(ctx context.Context, id hns.LoadBalancerID) (hns.LoadBalancer, error)
	CreateLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error)
	ModifyLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error)
	DeleteLoadBalancer(ctx context.Context, id hns.LoadBalancerID) error
}

// Namespaces are the calls about namespaces.
type Namespaces interface {
	Namespaces(ctx context.Context) ([]hns.Namespace, error)
	Namespace(ctx context.Context, id hns.NamespaceID) (hns.Namespace, error)
	AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error
	RemoveFromNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error
}

// limit bounds one behaviour on a slow host.
const limit = 2 * time.Minute

// Run runs every behaviour on networks of its own, which it deletes. Other objects of the host stay as they are.
func Run(t *testing.T, h Host) {
	behaviours := []struct {
		name string
		test func(*testing.T, *subject)
	}{
		{"network is found", networkIsFound},
		{"network type is checked", networkType},
		{"network goes with its endpoints", networkGoes},
		{"network in use stays", networkInUse},
		{"remote endpoint", remoteEndpoint},
		{"local addresses", localAddresses},
		{"endpoint of no network", endpointOfNoNetwork},
		{"host namespace", hostNamespace},
		{"remote endpoint in no namespace", remoteInNamespace},
		{"load balancer", balancer},
		{"frontend belongs to one", frontend},
		{"load balancer needs backends", backends},
		{"load balancer is modified", modify},
	}

	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			b.test(t, &subject{Host: h, t: t, ctx: ctx})
		})
	}
}

// Addresses and ids of the suite.
var (
	subnet  = hns.Subnet{Prefix: netip.MustParsePrefix("10.77.0.0/24"), Gateway: netip.MustParseAddr("10.77.0.1")}
	vip     = netip.MustParseAddr("10.79.0.10")
	unknown = "706f7274-6570-8001-8001-0000000000ff"
)

const (
	networkName = "porthole-suite"
	first       = "706f7274-6570-8001-8001-000000000001"
	second      = "706f7274-6570-8001-8001-000000000002"
)

// subject is the host during one behaviour.
type subject struct {
	Host
	t   *testing.T
	ctx context.Context
}

// network makes the suite's network, which is deleted with what is in it at the end.
func (s *subject) network() hns.Network {
	s.t.Helper()
	made, err := s.CreateNetwork(s.ctx,
		hns.Network{Name: networkName, Type: hns.L2Bridge, Adapter: s.Adapter, Subnets: []hns.Subnet{subnet}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.DeleteNetwork(context.Background(), made.ID); err != nil {
			s.t.Error(err)
		}
	})
	return made
}

// endpoint makes an endpoint, which is deleted at the end.
func (s *subject) endpoint(e hns.Endpoint) hns.Endpoint {
	s.t.Helper()
	made, err := s.CreateEndpoint(s.ctx, e)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.DeleteEndpoint(context.Background(), made.ID); err != nil {
			s.t.Error(err)
		}
	})
	return made
}

// remote makes a remote endpoint at an address outside the network.
func (s *subject) remote(network hns.NetworkID, id, addr string) hns.Endpoint {
	s.t.Helper()
	return s.endpoint(hns.Endpoint{ID: hns.EndpointID(id), Name: "porthole-suite-" + id[len(id)-2:], Network: network,
		Remote: true,
		Addrs:  []netip.Addr{netip.MustParseAddr(addr)}, MAC: "02-11-0a-4e-00-" + id[len(id)-2:]})
}

// class fails unless a call ended with an error of that class.
func (s *subject) class(what string, err error, want hns.Class) {
	s.t.Helper()
	if hns.ClassOf(err) != want {
		s.t.Errorf("%s: class %q, want %q (%v)", what, hns.ClassOf(err), want, err)
	}
}

// good fails unless a call succeeded.
func (s *subject) good(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
}

// listed fails unless a listing succeeded and has an element.
func listed[T comparable](s *subject, what string, all []T, err error, one T) {
	s.t.Helper()
	if err != nil || !slices.Contains(all, one) {
		s.t.Errorf("%s: %v lacks %v (%v)", what, all, one, err)
	}
}

// unlisted fails unless a listing succeeded and does not have an element.
func unlisted[T comparable](s *subject, what string, all []T, err error, one T) {
	s.t.Helper()
	if err != nil || slices.Contains(all, one) {
		s.t.Errorf("%s: %v has %v (%v)", what, all, one, err)
	}
}
