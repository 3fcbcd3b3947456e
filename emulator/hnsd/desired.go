package hnsd

import (
	"slices"

	"porthole.dev/porthole/emulator/desired"
)

// Desired is what the data plane has to carry for a State: L2Bridge, Overlay, NAT and Transparent networks with all
// that hangs on them, and every namespace. Networks of other types are state only.
func Desired(s *State) desired.State {
	var d desired.State
	networks := map[string]bool{}
	for _, o := range s.List(Network) {
		if o.network.carried() {
			networks[o.ID] = true
			d.Networks = append(d.Networks, o.network.plane)
		}
	}

	for _, o := range s.List(Namespace) {
		d.Namespaces = append(d.Namespaces, desired.Namespace{ID: o.ID, Host: o.namespace.host(), Path: o.Path})
	}
	// Endpoints of networks that carry nothing are left out, and then load balancers without any
	// endpoint left.
	endpoints := map[string]bool{}
	routes := s.List(Route)
	for _, o := range s.List(Endpoint) {
		if networks[o.endpoint.network] {
			endpoints[o.ID] = true
			d.Endpoints = append(d.Endpoints, desiredEndpoint(o, routes))
		}
	}

	// The list of the document is not changed: it belongs to a State.
	for _, o := range s.List(LoadBalancer) {
		lb := o.balancer.plane
		lb.Backends = slices.DeleteFunc(slices.Clone(lb.Backends), func(id string) bool { return !endpoints[id] })
		if len(lb.Backends) > 0 {
			d.LoadBalancers = append(d.LoadBalancers, lb)
		}
	}
	return d
}

// desiredEndpoint is an endpoint with the SDN routes of the host that name it.
// The list of routes is clipped first, because the parsed endpoint is shared by all readers of the
// State.
func desiredEndpoint(o *Object, routes []*Object) desired.Endpoint {
	e := o.endpoint.plane
	for _, r := range routes {
		if slices.Contains(r.route.endpoints, o.ID) {
			e.SDNRoutes = append(slices.Clip(e.SDNRoutes), r.route.routes...)
		}
	}
	return e
}

// DesiredChange returns what a change means for the data plane; next is the state after it. ok is false if more than
// endpoints and load balancers changed: then the caller must hand over all of Desired.
func DesiredChange(next *State, c Change) (out desired.Change, ok bool) {
	routes := next.List(Route)
	for _, o := range c.Put {
		switch o.Kind {
		case Endpoint:
			// Without its network nobody knows whether the endpoint has packets; the whole state
			// tells.
			network, ok := next.Get(Network, o.endpoint.network)
			if !ok {
				return out, false
			}
			if network.network.carried() {
				out.Endpoints = append(out.Endpoints, desiredEndpoint(o, routes))
			}
		case LoadBalancer:
			// A load balancer whose last carried backend went away is gone for the data plane, as
			// in Desired.
			if slices.ContainsFunc(o.balancer.backends, func(id string) bool { return carriedEndpoint(next, id) }) {
				out.LoadBalancers = append(out.LoadBalancers, o.balancer.plane)
			} else {
				out.GoneLoadBalancers = append(out.GoneLoadBalancers, o.ID)
			}
		default:
			return out, false
		}
	}

	for _, r := range c.Drop {
		switch r.Kind {
		case Endpoint:
			out.GoneEndpoints = append(out.GoneEndpoints, r.ID)
		case LoadBalancer:
			out.GoneLoadBalancers = append(out.GoneLoadBalancers, r.ID)
		default:
			return out, false
		}
	}
	return out, true
}

// carriedEndpoint reports whether an endpoint is there and its network has packets.
func carriedEndpoint(s *State, id string) bool {
	e, ok := s.Get(Endpoint, id)
	if !ok {
		return false
	}
	network, ok := s.Get(Network, e.endpoint.network)
	return ok && network.network.carried()
}
