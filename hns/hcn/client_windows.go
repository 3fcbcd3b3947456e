package hcn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	// Trust: what is created is returned as it was sent, without being read back, once HNS has shown that it keeps the
	// ids that it is given. It saves a call for each object; what HNS adds to a document is not seen.
	Trust bool
	// Observe, if set, is called after each call: its kind ("create endpoint"), how long it took and its error.
	Observe func(kind string, took time.Duration, err error)
}

// Client talks to HNS. It is safe for concurrent use.
type Client struct {
	opts    Options
	slots   chan struct{} // as many as may be in use
	calls   chan func()   // for workers that have done theirs
	written writtenIDs
	// keepsIDs: HNS was seen to keep an id that it was given.
	keepsIDs atomic.Bool
	mu       sync.Mutex // guards what follows
	// parent is the network that endpoints were created on last, kept open.
	parentID hns.NetworkID
	parent   handle
}

// New makes a client; it calls nothing.
func New(opts Options) *Client {
	if opts.Deadline == 0 {
		opts.Deadline = 30 * time.Second
	}
	if opts.Parallel == 0 {
		opts.Parallel = 16
	}
	return &Client{opts: opts, slots: make(chan struct{}, opts.Parallel), calls: make(chan func())}
}

// all lists documents. An object that vanished between its enumeration and its query is not in the list, and no
// failure.
func all[Doc, To any](c *Client, o object, filter map[string]string, convert func(Doc) To) ([]To, error) {
	ids, err := c.written.list(o, filter)
	if err != nil {
		return nil, err
	}
	out := make([]To, 0, len(ids))
	for _, id := range ids {
		var doc Doc
		if err := o.read(id, &doc); err != nil {
			if hns.IsAbsent(classify("", err)) {
				continue
			}
			return nil, err
		}
		out = append(out, convert(doc))
	}
	return out, nil
}

// named finds the first object of a name.
func named[Doc, To any](c *Client, o object, name string, convert func(Doc) To) (To, error) {
	var none To
	found, err := all(c, o, map[string]string{"Name": name}, convert)
	if err != nil {
		return none, err
	}
	if len(found) == 0 {
		return none, &hns.Error{Doing: "looking for " + name, Class: hns.Absent,
			Err: errors.New("there is none of this name")}
	}
	return found[0], nil
}

func idsAs[ID ~string](ids []string) []ID {
	out := make([]ID, len(ids))
	for i, id := range ids {
		out[i] = ID(id)
	}
	return out
}

// Version of HNS. It is asked each time: an answer from a moment when HNS was down must not stick.
func (c *Client) Version(ctx context.Context) (hns.Version, error) {
	return call(ctx, c, "read version", "", version)
}

// Networks lists all networks.
func (c *Client) Networks(ctx context.Context) ([]hns.Network, error) {
	return call(ctx, c, "list networks", "",
		func() ([]hns.Network, error) { return all(c, networks, nil, networkFrom) })
}

// NetworkByName finds a network; the error is of class hns.Absent if it does not exist.
func (c *Client) NetworkByName(ctx context.Context, name string) (hns.Network, error) {
	return call(ctx, c, "find network", name,
		func() (hns.Network, error) { return named(c, networks, name, networkFrom) })
}

// NetworkIDs returns the ids of all networks of a name, in one call to HNS.
func (c *Client) NetworkIDs(ctx context.Context, name string) ([]hns.NetworkID, error) {
	return call(ctx, c, "list network ids", name, func() ([]hns.NetworkID, error) {
		ids, err := c.written.list(networks, map[string]string{"Name": name})
		return idsAs[hns.NetworkID](ids), err
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
		c.written.noteNetworks(made.Id)
		return networkOf(*made)
	})
}

// DeleteNetwork removes a network; deleting one that is gone is success.
func (c *Client) DeleteNetwork(ctx context.Context, id hns.NetworkID) error {
	return c.remove(ctx, "delete network", string(id), func() error {
		return networks.removed(string(id))
	})
}

// Endpoints lists the endpoints of one network.
func (c *Client) Endpoints(ctx context.Context, network hns.NetworkID) ([]hns.Endpoint, error) {
	return call(ctx, c, "list endpoints", "of network "+string(network), func() ([]hns.Endpoint, error) {
		filter, err := c.written.filterOf(network)
		if err != nil {
			return nil, err
		}
		return all(c, endpoints, filter, endpointFrom)
	})
}

// EndpointIDs returns the ids of the endpoints of one network, in one call to HNS.
func (c *Client) EndpointIDs(ctx context.Context, network hns.NetworkID) ([]hns.EndpointID, error) {
	return call(ctx, c, "list endpoint ids", "of network "+string(network), func() ([]hns.EndpointID, error) {
		filter, err := c.written.filterOf(network)
		if err != nil {
			return nil, err
		}
		ids, err := c.written.list(endpoints, filter)
		return idsAs[hns.EndpointID](ids), err
	})
}

// Endpoint reads one; the error is of class hns.Absent if it does not exist. Half a document is an endpoint without
// addresses.
func (c *Client) Endpoint(ctx context.Context, id hns.EndpointID) (hns.Endpoint, error) {
	return call(ctx, c, "read endpoint", string(id), func() (hns.Endpoint, error) {
		doc := endpointDoc{ID: string(id)}
		err := endpoints.read(string(id), &doc)
		return endpointFrom(doc), err
	})
}

// EndpointByName finds an endpoint; the error is of class hns.Absent if it does not exist.
func (c *Client) EndpointByName(ctx context.Context, name string) (hns.Endpoint, error) {
	return call(ctx, c, "find endpoint", name,
		func() (hns.Endpoint, error) { return named(c, endpoints, name, endpointFrom) })
}

// CreateEndpoint makes an endpoint and returns it as HNS knows it (see Options.Trust). Its Namespace is ignored: see
// AddToNamespace.
func (c *Client) CreateEndpoint(ctx context.Context, endpoint hns.Endpoint) (hns.Endpoint, error) {
	made, err := call(ctx, c, "create endpoint", "", func() (hns.Endpoint, error) {
		var doc endpointDoc
		err := c.onNetwork(endpoint.Network, func(network handle) error {
			if c.trusts(string(endpoint.ID)) {
				doc = endpointTo(endpoint)
				return endpoints.made(network, c.written.endpointDoc(doc), nil)
			}
			return endpoints.made(network, c.written.endpointDoc(endpointTo(endpoint)), &doc)
		})
		if err != nil {
			return hns.Endpoint{}, err
		}
		c.written.endpoints.note(doc.ID)
		c.kept(string(endpoint.ID), doc.ID)
		return endpointFrom(doc), nil
	})
	return made, detailed(err, "%s %v on network %s", endpoint.Name, endpoint.Addrs, endpoint.Network)
}

// trusts reports whether what is made under an id of ours need not be read back.
func (c *Client) trusts(id string) bool { return c.opts.Trust && id != "" && c.keepsIDs.Load() }

// kept notes that HNS takes the id that was asked for.
func (c *Client) kept(asked, got string) {
	if asked != "" && hns.NormalID(got) == asked {
		c.keepsIDs.Store(true)
	}
}

// onNetwork runs f with an open network. The last one stays open for the next endpoint; after an error it is opened
// again, because HNS forgets handles when it restarts.
func (c *Client) onNetwork(id hns.NetworkID, f func(handle) error) error {
	c.mu.Lock()
	h := c.parent
	if c.parentID != id {
		h = 0
	}
	c.mu.Unlock()
	if h != 0 {
		err := f(h)
		var code *hresult
		if err == nil || !errors.As(err, &code) || code.code != invalidHandle && code.code != notFound {
			return err
		}
	}

	fresh, err := networks.opened(string(id))
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.parentID, c.parent = id, fresh // the one before may be in use still; it is a handle per restart of HNS
	c.mu.Unlock()
	return f(fresh)
}

// Codes of a call with a handle that HNS does not know (any more).
const (
	invalidHandle = 0x6
	notFound      = 0x490
)

// DeleteEndpoint removes an endpoint; deleting one that is gone is success.
func (c *Client) DeleteEndpoint(ctx context.Context, id hns.EndpointID) error {
	err := c.remove(ctx, "delete endpoint", string(id), func() error {
		return endpoints.removed(string(id))
	})
	if err == nil {
		c.written.endpoints.forget(string(id))
	}
	return err
}

// LoadBalancers lists all load balancers of the host.
func (c *Client) LoadBalancers(ctx context.Context) ([]hns.LoadBalancer, error) {
	return call(ctx, c, "list load balancers", "", func() ([]hns.LoadBalancer, error) {
		return all(c, balancers, nil, loadBalancerFrom)
	})
}

// LoadBalancerIDs returns the ids of all load balancers of the host, in one call to HNS.
func (c *Client) LoadBalancerIDs(ctx context.Context) ([]hns.LoadBalancerID, error) {
	return call(ctx, c, "list load balancer ids", "", func() ([]hns.LoadBalancerID, error) {
		ids, err := c.written.list(balancers, nil)
		return idsAs[hns.LoadBalancerID](ids), err
	})
}

// LoadBalancerOutlines returns the outlines of all load balancers of the host, in one call to HNS.
func (c *Client) LoadBalancerOutlines(ctx context.Context) (map[hns.LoadBalancerID]uint64, error) {
	return call(ctx, c, "list load balancer outlines", "", func() (map[hns.LoadBalancerID]uint64, error) {
		lists, err := first[[]policyListDoc]("/policylists/")
		return outlinesFrom(lists), err
	})
}

// LoadBalancer reads one; the error is of class hns.Absent if it does not exist.
func (c *Client) LoadBalancer(ctx context.Context, id hns.LoadBalancerID) (hns.LoadBalancer, error) {
	return call(ctx, c, "read load balancer", string(id), func() (hns.LoadBalancer, error) {
		doc := balancerDoc{ID: string(id)}
		err := balancers.read(string(id), &doc)
		return loadBalancerFrom(doc), err
	})
}

// CreateLoadBalancer makes a load balancer and returns it as HNS knows it (see Options.Trust). A given ID is kept.
func (c *Client) CreateLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	made, err := call(ctx, c, "create load balancer", "", func() (hns.LoadBalancer, error) {
		if c.trusts(string(lb.ID)) {
			return lb, balancers.made(0, c.written.balancerDoc(lb), nil)
		}
		var doc balancerDoc
		if err := balancers.made(0, c.written.balancerDoc(lb), &doc); err != nil {
			return hns.LoadBalancer{}, err
		}
		c.kept(string(lb.ID), doc.ID)
		return loadBalancerFrom(doc), nil
	})
	return made, detailed(err, "%s for %v %v", lb.ID, lb.VIPs, lb.Ports)
}

// ModifyLoadBalancer gives the load balancer lb.ID a new document and returns it as HNS then knows it, which may be
// unchanged: see hns.Version.CanModifyLoadBalancer.
func (c *Client) ModifyLoadBalancer(ctx context.Context, lb hns.LoadBalancer) (hns.LoadBalancer, error) {
	return call(ctx, c, "modify load balancer", string(lb.ID), func() (hns.LoadBalancer, error) {
		settings := c.written.balancerDoc(lb)
		doc := balancerDoc{ID: string(lb.ID)}
		settings.ID = ""
		err := balancers.modified(string(lb.ID), settings, &doc)
		return loadBalancerFrom(doc), err
	})
}

// DeleteLoadBalancer removes a load balancer; deleting one that is gone is success.
func (c *Client) DeleteLoadBalancer(ctx context.Context, id hns.LoadBalancerID) error {
	return c.remove(ctx, "delete load balancer", string(id), func() error {
		return balancers.removed(string(id))
	})
}

// Namespaces lists all namespaces.
func (c *Client) Namespaces(ctx context.Context) ([]hns.Namespace, error) {
	return call(ctx, c, "list namespaces", "",
		func() ([]hns.Namespace, error) { return all(c, namespaces, nil, namespaceFrom) })
}

// Namespace finds a namespace by id; the error is of class hns.Absent if it does not exist.
func (c *Client) Namespace(ctx context.Context, id hns.NamespaceID) (hns.Namespace, error) {
	return call(ctx, c, "find namespace", string(id), func() (hns.Namespace, error) {
		doc := namespaceDoc{ID: string(id)}
		err := namespaces.read(string(id), &doc)
		return namespaceFrom(doc), err
	})
}

// AddToNamespace puts an endpoint into a namespace. Doing it again is success if HNS lists the endpoint in that
// namespace. If HNS only reports that the endpoint is in some namespace, hns.IsAttached returns true for the error.
func (c *Client) AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	_, err := call(ctx, c, "add endpoint", fmt.Sprintf("%s to namespace %s", endpoint, id), func() (struct{}, error) {
		return struct{}{}, namespaces.modified(string(id), c.written.membershipDoc("Add", endpoint), nil)
	})
	if hns.IsAttached(err) {
		if now, unread := c.Endpoint(ctx, endpoint); unread == nil && now.Namespace == id {
			return nil
		}
	}
	return err
}

// RemoveFromNamespace takes an endpoint out of a namespace; if one of them is gone, that is success.
func (c *Client) RemoveFromNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	return c.remove(ctx, "remove endpoint", fmt.Sprintf("%s from namespace %s", endpoint, id), func() error {
		return namespaces.modified(string(id), c.written.membershipDoc("Remove", endpoint), nil)
	})
}

// remove takes what is not there any more for success.
func (c *Client) remove(ctx context.Context, kind, what string, f func() error) error {
	_, err := call(ctx, c, kind, what, func() (struct{}, error) { return struct{}{}, f() })
	if hns.IsAbsent(err) {
		return nil
	}
	return err
}

// networkOf converts a document of hcsshim's.
func networkOf(doc shim.HostComputeNetwork) (hns.Network, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return hns.Network{}, err
	}
	var own networkDoc
	err = json.Unmarshal(data, &own)
	return networkFrom(own), err
}
