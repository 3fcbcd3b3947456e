// Package hnstest is a Host Networking Service in memory, for tests: it keeps the rules that real HNS was seen to keep
// (unique frontends, no load balancer without backends, unique local addresses), counts calls by kind, prints its state,
// and fails calls when it is told to.
package hnstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/hns"
)

// Outcome of a call that a fault may change.
type Outcome int

// What a fault can do.
const (
	Work          Outcome = iota // nothing unusual
	Fail                         // unknown error, nothing changed
	DoThenFail                   // the change is made, and the caller gets an unknown error
	LieAboutIt                   // success is answered and nothing changed
	AnswerNothing                // a listing answers an empty list
	Hang                         // no answer until the caller's deadline, nothing changed
	Vanish                       // reading one object finds it gone (it is not)
	Halve                        // reading an endpoint gives no addresses
)

// Fake is one host. Set its fields before use.
type Fake struct {
	HNS hns.Version
	// Fault, if set, is asked before each call; kind is as counted by Calls.
	Fault func(kind string) Outcome
	// Latency, if set, is how long a call of a kind takes; writes wait for each other.
	Latency func(kind string) time.Duration
	// Outline, if set, is what this host's first interface tells of a load balancer, in place of hns.LoadBalancer.Outline.
	Outline func(hns.LoadBalancer) uint64
	// Refuse, if set, answers a creation or modification with an error of the host's own, a full port pool for example.
	Refuse func(kind string, endpoint *hns.Endpoint, lb *hns.LoadBalancer) error

	turn       chan struct{}
	mu         sync.Mutex
	next       int
	calls      map[string]int
	networks   []hns.Network
	endpoints  []hns.Endpoint
	balancers  []hns.LoadBalancer
	namespaces []hns.Namespace
}

// New makes a host with one network.
func New(version hns.Version, networks ...hns.Network) *Fake {
	return &Fake{HNS: version, networks: networks, calls: map[string]int{}, turn: make(chan struct{}, 1)}
}

// OneIn is a fault that makes one in n calls misbehave, by chance; the same seed gives the same chance.
func OneIn(n int, seed uint64, how Outcome) func(string) Outcome {
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(seed, 0))
	return func(string) Outcome {
		mu.Lock()
		defer mu.Unlock()
		if chance.IntN(n) == 0 {
			return how
		}
		return Work
	}
}

// Calls counts the calls so far by kind, as "create endpoint: 3" lines in order.
func (f *Fake) Calls() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(f.calls)) {
		fmt.Fprintf(&b, "%s: %d\n", kind, f.calls[kind])
	}
	return b.String()
}

// Count of one kind of call.
func (f *Fake) Count(kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[kind]
}

// ResetCalls starts counting anew.
func (f *Fake) ResetCalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = map[string]int{}
}

// Edit changes the host's objects behind everybody's back.
func (f *Fake) Edit(change func(endpoints *[]hns.Endpoint, balancers *[]hns.LoadBalancer, networks *[]hns.Network)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.endpoints, &f.balancers, &f.networks)
}

// SetFault replaces the fault.
func (f *Fake) SetFault(fault func(string) Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Fault = fault
}

// AddNamespace makes a namespace as a container runtime would.
func (f *Fake) AddNamespace(id hns.NamespaceID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.namespaces = append(f.namespaces, hns.Namespace{ID: id, Type: "Guest"})
}

// hangs is how long a call that hangs is waited for: the deadline of hns/hcn.
const hangs = 30 * time.Second

// enter counts the call, lets its time pass and gives its fault. Writes take their time one after the other, as HNS has it.
// The caller does not hold f.mu.
func (f *Fake) enter(ctx context.Context, kind string) Outcome {
	f.mu.Lock()
	f.calls[kind]++
	outcome, latency := Work, time.Duration(0)
	if f.Fault != nil {
		outcome = f.Fault(kind)
	}
	if f.Latency != nil {
		latency = f.Latency(kind)
	}
	f.mu.Unlock()
	if outcome == Hang {
		pause(ctx, hangs)
		return Fail
	}
	if latency > 0 {
		if isWrite(kind) {
			f.turn <- struct{}{}
			defer func() { <-f.turn }()
		}
		pause(ctx, latency)
	}
	return outcome
}

// doing is a call: do runs under f.mu, unless the call's fault is that it does not.
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

// change is a call without an answer.
func (f *Fake) change(ctx context.Context, kind string, do func() error) error {
	_, err := doing(ctx, f, kind, func(Outcome) (struct{}, error) { return struct{}{}, do() })
	return err
}

func isWrite(kind string) bool {
	for _, verb := range []string{"create", "modify", "delete", "add", "remove"} {
		if strings.HasPrefix(kind, verb) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func fail(class hns.Class, code uint32, format string, args ...any) error {
	return &hns.Error{Doing: fmt.Sprintf(format, args...), Class: class, Code: code, Err: errors.New("refused by the fake")}
}

func broken(kind string) error { return fail(hns.Unknown, 0x6ba, "%s", kind) }

func (f *Fake) newID() string {
	f.next++
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", f.next)
}

// Version answers like hcn.Client's.
func (f *Fake) Version(ctx context.Context) (hns.Version, error) {
	return doing(ctx, f, "read version", func(_ Outcome) (hns.Version, error) {
		return f.HNS, nil
	})
}

// NetworkByName answers like hcn.Client's.
func (f *Fake) NetworkByName(ctx context.Context, name string) (hns.Network, error) {
	return doing(ctx, f, "find network", func(_ Outcome) (hns.Network, error) {
		for _, n := range f.networks {
			if n.Name == name {
				return n, nil
			}
		}
		return hns.Network{}, fail(hns.Absent, 0, "find network %s", name)
	})
}

// Endpoints answers like hcn.Client's.
func (f *Fake) Endpoints(ctx context.Context, network hns.NetworkID) ([]hns.Endpoint, error) {
	outcome := f.enter(ctx, "list endpoints")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome {
	case Fail, DoThenFail:
		return nil, broken("list endpoints")
	case AnswerNothing:
		return nil, nil
	}
	var out []hns.Endpoint
	for _, e := range f.endpoints {
		if e.Network == network {
			out = append(out, e)
		}
	}
	return out, nil
}

// EndpointByName answers like hcn.Client's.
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

// CreateEndpoint answers like hcn.Client's.
func (f *Fake) CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error) {
	return doing(ctx, f, "create endpoint", func(_ Outcome) (hns.Endpoint, error) {
		if !slices.ContainsFunc(f.networks, func(n hns.Network) bool { return n.ID == e.Network }) {
			return hns.Endpoint{}, fail(hns.Absent, 0x803b0001, "create endpoint on network %s", e.Network)
		}
		if f.Refuse != nil {
			if err := f.Refuse("create endpoint", &e, nil); err != nil {
				return hns.Endpoint{}, err
			}
		}
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
		if e.ID == "" {
			e.ID = hns.EndpointID(f.newID())
		}
		f.endpoints = append(f.endpoints, e)
		return e, nil
	})
}

// DeleteEndpoint answers like hcn.Client's.
func (f *Fake) DeleteEndpoint(ctx context.Context, id hns.EndpointID) error {
	return f.change(ctx, "delete endpoint", func() error {
		f.endpoints = slices.DeleteFunc(f.endpoints, func(e hns.Endpoint) bool { return e.ID == id })
		return nil
	})
}

// Namespace answers like hcn.Client's.
func (f *Fake) Namespace(ctx context.Context, id hns.NamespaceID) (hns.Namespace, error) {
	return doing(ctx, f, "find namespace", func(_ Outcome) (hns.Namespace, error) {
		for _, n := range f.namespaces {
			if n.ID == id {
				return n, nil
			}
		}
		return hns.Namespace{}, fail(hns.Absent, 0x490, "find namespace %s", id)
	})
}

// AddToNamespace answers like hcn.Client's.
func (f *Fake) AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	return f.change(ctx, "add endpoint", func() error {
		for i := range f.namespaces {
			if f.namespaces[i].ID != id {
				continue
			}
			for j := range f.endpoints {
				e := &f.endpoints[j]
				if e.ID != endpoint {
					continue
				}
				if e.Namespace != "" && e.Namespace != id {
					return fail(hns.Invalid, 0x803b002b, "add endpoint %s", endpoint)
				}
				if e.Namespace == "" {
					e.Namespace = id
					f.namespaces[i].Endpoints = append(f.namespaces[i].Endpoints, endpoint)
				}
				return nil
			}
		}
		return fail(hns.Absent, 0x490, "add endpoint %s to namespace %s", endpoint, id)
	})
}

// RemoveFromNamespace answers like hcn.Client's.
func (f *Fake) RemoveFromNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	return f.change(ctx, "remove endpoint", func() error {
		for i := range f.namespaces {
			if f.namespaces[i].ID == id {
				f.namespaces[i].Endpoints = slices.DeleteFunc(f.namespaces[i].Endpoints,
					func(e hns.EndpointID) bool { return e == endpoint })
			}
		}
		for j := range f.endpoints {
			if f.endpoints[j].ID == endpoint {
				f.endpoints[j].Namespace = ""
			}
		}
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
