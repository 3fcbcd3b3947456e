// Package hnstest is a Host Networking Service in memory, for tests. It refuses what real HNS was seen to refuse (a
// second load balancer of a frontend, one without backends, a local address twice or of no subnet, a network name
// twice), counts calls by kind, prints its state, and makes calls fail as a test asks. Package suite below it compares
// it with other HNS; it is a third level because the fake itself does not need package testing.
package hnstest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"porthole.dev/porthole/hns"
)

// Fake is one host. It is safe for concurrent use once its fields are set. Its calls are those of hcn.Client.
type Fake struct {
	HNS hns.Version
	recorder
	// Outline, if set, replaces hns.LoadBalancer.Outline in LoadBalancerOutlines.
	Outline func(hns.LoadBalancer) uint64
	// Refuse, if set, answers a creation or modification with an error of the host's own, a full port pool for example.
	Refuse func(kind string, endpoint *hns.Endpoint, lb *hns.LoadBalancer) error

	// Drop, if set, says which policies of endpoints the host accepts and does not keep. It is set before the Fake is
	// used.
	Drop func(hns.Policy) bool

	// NewState is the state that new endpoints have; 0: HNS gives none. It is set before the Fake is used.
	NewState hns.EndpointState

	// Provider is the node's own address, which new overlay networks report. LateProvider: they do so only after
	// Provide.
	Provider     netip.Addr
	LateProvider bool

	// Cards are the host's network cards: a network that is bound to another one is refused. None: each name is taken.
	// It is set before the Fake is used.
	Cards []string

	mu sync.Mutex // guards objects
	objects
}

// objects are what a host has.
type objects struct {
	next       int // makes ids
	networks   []hns.Network
	endpoints  []hns.Endpoint
	balancers  []hns.LoadBalancer
	namespaces []hns.Namespace
	oneOwner   bool                    // see OneOwnerPerPort
	attached   map[hns.EndpointID]bool // endpoints that are attached to the host, whatever the lists say
	noAdapters bool                    // see Host.WithoutAdapters
}

// HostNamespace is the id of the namespace that stands for the host's own compartment. Every Windows host has one.
const HostNamespace hns.NamespaceID = "00000000-0000-4000-9000-000000000001"

// New makes a host with the given networks, which are not checked, and its own namespace.
func New(version hns.Version, networks ...hns.Network) *Fake {
	host := hns.Namespace{ID: HostNamespace, Type: "HostDefault"}
	return &Fake{
		HNS:      version,
		recorder: recorder{turn: make(chan struct{}, 1)},
		objects:  objects{networks: networks, namespaces: []hns.Namespace{host}, attached: map[hns.EndpointID]bool{}},
	}
}

// OneOwnerPerPort makes the Fake accept each port of the host for one load balancer only, whatever its address, as the
// emulated host does with the profile ws2022-oneport.
func OneOwnerPerPort(f *Fake) { f.oneOwner = true }

// Edit changes the host's objects without a call to HNS.
func (f *Fake) Edit(change func(endpoints *[]hns.Endpoint, balancers *[]hns.LoadBalancer, networks *[]hns.Network)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.endpoints, &f.balancers, &f.networks)
}

// doing is a call about one object: do runs under f.mu, unless the fault is Fail.
func doing[T any](ctx context.Context, f *Fake, kind string, do func(Outcome) (T, error)) (T, error) {
	var none T
	outcome := f.enter(ctx, kind)
	f.mu.Lock()
	defer f.mu.Unlock()

	if outcome == Fail {
		return none, broken(kind)
	}
	value, err := do(outcome)
	if err == nil && outcome == DoThenFail {
		return none, broken(kind)
	}
	return value, err
}

// listing is a call that lists objects: find runs under f.mu.
func listing[T any](ctx context.Context, f *Fake, kind string, find func() T) (T, error) {
	var none T
	outcome := f.enter(ctx, kind)
	f.mu.Lock()
	defer f.mu.Unlock()

	switch outcome {
	case Fail, DoThenFail:
		return none, broken(kind)
	case AnswerNothing:
		return none, nil
	}
	return find(), nil
}

// change is a call without an answer.
func (f *Fake) change(ctx context.Context, kind string, do func() error) error {
	_, err := doing(ctx, f, kind, func(Outcome) (struct{}, error) { return struct{}{}, do() })
	return err
}

// fail is an error as HNS answers with it, with its code.
func fail(class hns.Class, code uint32, format string, args ...any) error {
	return &hns.Error{Doing: fmt.Sprintf(format, args...), Class: class, Code: code,
		Err: errors.New("refused by the fake")}
}

func broken(kind string) error { return fail(hns.Unknown, 0x6ba, "%s", kind) }

func (o *objects) newID() string {
	o.next++
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", o.next)
}

// Version implements the method of hcn.Client.
func (f *Fake) Version(ctx context.Context) (hns.Version, error) {
	return doing(ctx, f, "read version", func(_ Outcome) (hns.Version, error) {
		return f.HNS, nil
	})
}

// Endpoints implements the method of hcn.Client.
func (f *Fake) Endpoints(ctx context.Context, network hns.NetworkID) ([]hns.Endpoint, error) {
	return listing(ctx, f, "list endpoints", func() []hns.Endpoint {
		var out []hns.Endpoint
		for _, e := range f.endpoints {
			if e.Network == network {
				out = append(out, e)
			}
		}
		return out
	})
}

// EndpointByName implements the method of hcn.Client.
func (f *Fake) EndpointByName(ctx context.Context, name string) (hns.Endpoint, error) {
	return doing(ctx, f, "find endpoint", func(_ Outcome) (hns.Endpoint, error) {
		for _, e := range f.endpoints {
			if e.Name == name {
				return e, nil
			}
		}
		return hns.Endpoint{}, fail(hns.Absent, 0x490, "find endpoint %s", name)
	})
}

// CreateEndpoint implements the method of hcn.Client.
func (f *Fake) CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error) {
	return doing(ctx, f, "create endpoint", func(_ Outcome) (hns.Endpoint, error) {
		network := slices.IndexFunc(f.networks, func(n hns.Network) bool { return n.ID == e.Network })
		if network < 0 {
			return hns.Endpoint{}, fail(hns.Absent, 0x803b0001, "create endpoint on network %s", e.Network)
		}

		if f.Refuse != nil {
			if err := f.Refuse("create endpoint", &e, nil); err != nil {
				return hns.Endpoint{}, err
			}
		}

		// An id that is there is refused, and an address that another local endpoint of the network has.
		for _, other := range f.endpoints {
			if e.ID != "" && other.ID == e.ID {
				return hns.Endpoint{}, fail(hns.Exists, 0xb7, "create endpoint %s", e.ID)
			}
			for _, a := range e.Addrs {
				if !e.Remote && !other.Remote && other.Network == e.Network && other.Has(a) {
					return hns.Endpoint{}, fail(hns.Invalid, 0x803b002f, "create endpoint %s", a)
				}
			}
		}

		if addr, ok := reserved(f.networks[network], e); ok {
			return hns.Endpoint{}, fail(hns.Invalid, 0x803b002f, "create endpoint %s", addr)
		}

		if e.ID == "" {
			e.ID = hns.EndpointID(f.newID())
		}
		e.Policies = kept(e.Policies, f.Drop)
		e.State = f.NewState
		f.endpoints = append(f.endpoints, e)
		return e, nil
	})
}

// reserved returns an address of a local endpoint that its network has not to give: one of none of its subnets, or a
// gateway's.
func reserved(n hns.Network, e hns.Endpoint) (netip.Addr, bool) {
	if e.Remote || len(n.Subnets) == 0 {
		return netip.Addr{}, false
	}
	for _, a := range e.Addrs {
		within := func(s hns.Subnet) bool { return s.Prefix.Contains(a) && s.Gateway != a }
		if !slices.ContainsFunc(n.Subnets, within) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// DeleteEndpoint implements the method of hcn.Client. An endpoint that is in a namespace leaves it.
func (f *Fake) DeleteEndpoint(ctx context.Context, id hns.EndpointID) error {
	return f.change(ctx, "delete endpoint", func() error {
		f.endpoints = slices.DeleteFunc(f.endpoints, func(e hns.Endpoint) bool { return e.ID == id })
		f.detach(id)
		return nil
	})
}

// Dump prints endpoints and load balancers, backends by address, one line each, sorted.
func (f *Fake) Dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()

	var lines []string
	byID := map[hns.EndpointID]string{}
	for _, e := range f.endpoints {
		kind := "local"
		if e.Remote {
			kind = "remote"
		}
		byID[e.ID] = fmt.Sprint(e.Addrs)
		if len(e.Addrs) > 0 {
			byID[e.ID] = e.Addrs[0].String()
		}
		lines = append(lines, fmt.Sprintf("endpoint %s %s %q", kind, byID[e.ID], e.Name))
	}

	for _, lb := range f.balancers {
		var backends []string
		for _, id := range lb.Endpoints {
			backends = append(backends, byID[id])
		}
		slices.Sort(backends)

		vips := "node"
		if len(lb.VIPs) > 0 {
			vips = lb.VIPs[0].String()
		}
		line := "lb " + vips
		for _, p := range lb.Ports {
			line += fmt.Sprintf(" %d/%v->%d", p.External, p.Protocol, p.Internal)
		}
		lines = append(lines, line+" "+strings.Join(backends, ","))
	}

	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
