package hcn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	shim "github.com/Microsoft/hcsshim/hcn"

	"porthole.dev/porthole/hns"
)

// Options of a Client; the zero value is good.
type Options struct {
	// Deadline of one call; 0 means 30 s. A call that HNS does not answer in time fails as unknown, and its thread is
	// given up until HNS answers.
	Deadline time.Duration
	// Parallel calls at most, those that were given up included; 0 means 16.
	Parallel int
	// Observe, if set, is told of each call: its kind ("create endpoint"), how long it took and its error.
	Observe func(kind string, took time.Duration, err error)
}

// Client talks to HNS. It may be used from many goroutines.
type Client struct {
	opts  Options
	slots chan struct{}
}

// New makes a client; it calls nothing.
func New(opts Options) *Client {
	if opts.Deadline == 0 {
		opts.Deadline = 30 * time.Second
	}
	if opts.Parallel == 0 {
		opts.Parallel = 16
	}
	return &Client{opts: opts, slots: make(chan struct{}, opts.Parallel)}
}

// call runs f with the deadline. Kind names the call for counters, what is its object.
func call[T any](ctx context.Context, c *Client, kind, what string, f func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Deadline)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	started := time.Now()
	done := make(chan answer, 1)
	var got answer
	select {
	case c.slots <- struct{}{}:
		go func() {
			defer func() { <-c.slots }()
			var a answer
			defer func() {
				// hcsshim panics on an error that is not an HRESULT: a missing DLL or export.
				if p := recover(); p != nil {
					a.err = fmt.Errorf("the HNS libraries of this host cannot be called: %v", p)
				}
				done <- a
			}()
			a.value, a.err = f()
		}()
		select {
		case got = <-done:
		case <-ctx.Done():
			got.err = fmt.Errorf("no answer from HNS: %w", ctx.Err())
		}
	case <-ctx.Done():
		got.err = fmt.Errorf("%d calls to HNS hang: %w", cap(c.slots), ctx.Err())
	}
	err := classify(strings.TrimSpace(kind+" "+what), got.err)
	if c.opts.Observe != nil {
		c.opts.Observe(kind, time.Since(started), err)
	}
	return got.value, err
}

// classify turns hcsshim's errors into ours.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	e := &hns.Error{Doing: doing, Class: hns.Unknown, Err: err}
	var network shim.NetworkNotFoundError
	var endpoint shim.EndpointNotFoundError
	var namespace shim.NamespaceNotFoundError
	var lb shim.LoadBalancerNotFoundError
	switch {
	case errors.As(err, &network), errors.As(err, &endpoint), errors.As(err, &namespace), errors.As(err, &lb):
		e.Class = hns.Absent
		return e
	}
	for _, code := range hns.KnownCodes {
		if shim.CheckErrorWithCode(err, shim.ErrorCode(code)) {
			e.Code, e.Class = code, hns.ClassOfCode(code)
			break
		}
	}
	return e
}

// list repeats a listing in which an object vanished between its enumeration and its query: that is no failure.
func list[T any](f func() (T, error)) (T, error) {
	var value T
	var err error
	for range 4 {
		if value, err = f(); err == nil || !hns.IsAbsent(classify("", err)) {
			break
		}
	}
	if err != nil && hns.IsAbsent(classify("", err)) {
		err = fmt.Errorf("objects vanish faster than they can be listed: %s", err)
	}
	return value, err
}

// Version of HNS. It is asked each time: an answer from a moment when HNS was down must not stick.
func (c *Client) Version(ctx context.Context) (hns.Version, error) {
	return call(ctx, c, "read version", "", func() (hns.Version, error) {
		globals, err := shim.GetGlobals()
		if err != nil {
			return hns.Version{}, err
		}
		return hns.Version{Major: globals.Version.Major, Minor: globals.Version.Minor}, nil
	})
}

// Networks lists all networks.
func (c *Client) Networks(ctx context.Context) ([]hns.Network, error) {
	return call(ctx, c, "list networks", "", func() ([]hns.Network, error) {
		docs, err := list(shim.ListNetworks)
		return convert(docs, networkFrom), err
	})
}

// NetworkByName finds a network; it fails with hns.Absent when there is none.
func (c *Client) NetworkByName(ctx context.Context, name string) (hns.Network, error) {
	return call(ctx, c, "find network", name, func() (hns.Network, error) {
		doc, err := shim.GetNetworkByName(name)
		if err != nil {
			return hns.Network{}, err
		}
		return networkFrom(*doc), nil
	})
}

// CreateNetwork makes a network and returns it as HNS knows it.
func (c *Client) CreateNetwork(ctx context.Context, network hns.Network) (hns.Network, error) {
	return call(ctx, c, "create network", network.Name, func() (hns.Network, error) {
		doc := networkTo(network)
		made, err := doc.Create()
		if err != nil {
			return hns.Network{}, err
		}
		return networkFrom(*made), nil
	})
}

// DeleteNetwork removes a network; one that is gone already is no error.
func (c *Client) DeleteNetwork(ctx context.Context, id hns.NetworkID) error {
	return c.remove(ctx, "delete network", string(id), func() error {
		return (&shim.HostComputeNetwork{Id: string(id)}).Delete()
	})
}

// Endpoints lists the endpoints of one network.
func (c *Client) Endpoints(ctx context.Context, network hns.NetworkID) ([]hns.Endpoint, error) {
	return call(ctx, c, "list endpoints", "of network "+string(network), func() ([]hns.Endpoint, error) {
		docs, err := list(func() ([]shim.HostComputeEndpoint, error) {
			return shim.ListEndpointsOfNetwork(string(network))
		})
		return convert(docs, endpointFrom), err
	})
}

// EndpointByName finds an endpoint; it fails with hns.Absent when there is none.
func (c *Client) EndpointByName(ctx context.Context, name string) (hns.Endpoint, error) {
	return call(ctx, c, "find endpoint", name, func() (hns.Endpoint, error) {
		doc, err := shim.GetEndpointByName(name)
		if err != nil {
			return hns.Endpoint{}, err
		}
		return endpointFrom(*doc), nil
	})
}

// CreateEndpoint makes an endpoint and returns it as HNS knows it. Its Namespace is ignored: see AddToNamespace.
func (c *Client) CreateEndpoint(ctx context.Context, endpoint hns.Endpoint) (hns.Endpoint, error) {
	what := fmt.Sprintf("%s %v on network %s", endpoint.Name, endpoint.Addrs, endpoint.Network)
	return call(ctx, c, "create endpoint", what, func() (hns.Endpoint, error) {
		doc := endpointTo(endpoint)
		made, err := doc.Create()
		if err != nil {
			return hns.Endpoint{}, err
		}
		return endpointFrom(*made), nil
	})
}

// DeleteEndpoint removes an endpoint; one that is gone already is no error.
func (c *Client) DeleteEndpoint(ctx context.Context, id hns.EndpointID) error {
	return c.remove(ctx, "delete endpoint", string(id), func() error {
		return (&shim.HostComputeEndpoint{Id: string(id)}).Delete()
	})
}

// LoadBalancers lists all load balancers of the host.
func (c *Client) LoadBalancers(ctx context.Context) ([]hns.LoadBalancer, error) {
	return call(ctx, c, "list load balancers", "", func() ([]hns.LoadBalancer, error) {
		docs, err := list(shim.ListLoadBalancers)
		return convert(docs, loadBalancerFrom), err
	})
}

// CreateLoadBalancer makes a load balancer and returns it as HNS knows it. A given ID is kept.
func (c *Client) CreateLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	return call(ctx, c, "create load balancer", string(lb.ID), func() (hns.LoadBalancer, error) {
		doc := loadBalancerTo(lb)
		made, err := doc.Create()
		if err != nil {
			return hns.LoadBalancer{}, err
		}
		return loadBalancerFrom(*made), nil
	})
}

// ModifyLoadBalancer gives the load balancer lb.ID a new document and returns it as HNS then knows it, which may be
// unchanged: see hns.Version.CanModifyLoadBalancer.
func (c *Client) ModifyLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	return call(ctx, c, "modify load balancer", string(lb.ID), func() (hns.LoadBalancer, error) {
		doc := loadBalancerTo(lb)
		doc.Id = ""
		made, err := doc.Update(string(lb.ID))
		if err != nil {
			return hns.LoadBalancer{}, err
		}
		return loadBalancerFrom(*made), nil
	})
}

// DeleteLoadBalancer removes a load balancer; one that is gone already is no error.
func (c *Client) DeleteLoadBalancer(ctx context.Context, id hns.LoadBalancerID) error {
	return c.remove(ctx, "delete load balancer", string(id), func() error {
		return (&shim.HostComputeLoadBalancer{Id: string(id)}).Delete()
	})
}

// Namespaces lists all namespaces.
func (c *Client) Namespaces(ctx context.Context) ([]hns.Namespace, error) {
	return call(ctx, c, "list namespaces", "", func() ([]hns.Namespace, error) {
		docs, err := list(shim.ListNamespaces)
		return convert(docs, namespaceFrom), err
	})
}

// Namespace finds a namespace by id; it fails with hns.Absent when there is none.
func (c *Client) Namespace(ctx context.Context, id hns.NamespaceID) (hns.Namespace, error) {
	return call(ctx, c, "find namespace", string(id), func() (hns.Namespace, error) {
		doc, err := shim.GetNamespaceByID(string(id))
		if err != nil {
			return hns.Namespace{}, err
		}
		return namespaceFrom(*doc), nil
	})
}

// AddToNamespace puts an endpoint into a namespace. Doing it twice is no error.
func (c *Client) AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	_, err := call(ctx, c, "add endpoint", fmt.Sprintf("%s to namespace %s", endpoint, id), func() (struct{}, error) {
		return struct{}{}, shim.AddNamespaceEndpoint(string(id), string(endpoint))
	})
	return err
}

// RemoveFromNamespace takes an endpoint out of a namespace; when one of them is gone already that is no error.
func (c *Client) RemoveFromNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	return c.remove(ctx, "remove endpoint", fmt.Sprintf("%s from namespace %s", endpoint, id), func() error {
		return shim.RemoveNamespaceEndpoint(string(id), string(endpoint))
	})
}

func (c *Client) remove(ctx context.Context, kind, what string, f func() error) error {
	_, err := call(ctx, c, kind, what, func() (struct{}, error) { return struct{}{}, f() })
	if hns.IsAbsent(err) {
		return nil
	}
	return err
}

func convert[From, To any](docs []From, f func(From) To) []To {
	out := make([]To, 0, len(docs))
	for _, doc := range docs {
		out = append(out, f(doc))
	}
	return out
}

func rawJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return data
}
