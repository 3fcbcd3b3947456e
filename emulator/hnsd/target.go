package hnsd

import "strings"

// Target is what a call is about, as far as its duration and its place in the order of writes depend on it.
type Target struct {
	Network   string // whose writes it has to wait for; "" if not known
	Backends  int    // named by the document of a load balancer
	Balancers int    // that exist
}

// Target of a v2 call. id is the object's, or with create the parent network's; settings the document, if there is one.
func (s *State) Target(k Kind, id string, create bool, d Doc) Target {
	t := Target{Balancers: s.Count(LoadBalancer)}
	switch {
	case k == Network && !create:
		t.Network = id
	case k == Endpoint && create:
		t.Network = id
		if id == "" {
			t.Network = canonicalID(d.str("HostComputeNetwork"))
		}
	case k == Endpoint:
		t.Network = s.networkOf(id)
	case k == Namespace:
		// A request to a namespace names the endpoint that it is about.
		t.Network = s.networkOf(canonicalID(d.doc("Settings").str("EndpointId")))
	case k == LoadBalancer || k == Route:
		backends := d.strs("HostComputeEndpoints")
		if o, ok := s.Get(k, id); ok && len(backends) == 0 {
			backends = o.backends()
		}
		t.Backends = len(backends)
		t.Network = s.networkOfFirst(backends)
	}
	return t
}

// TargetV1 is the same for a v1 call.
func (s *State) TargetV1(c V1) Target {
	t := Target{Balancers: s.Count(LoadBalancer)}
	id, d := c.id(), c.body
	switch c.collection() {
	case "networks":
		t.Network = id
	case "endpoints":
		t.Network = s.networkOf(id)
		if id == "" {
			t.Network = canonicalID(d.str("VirtualNetwork"))
		}
	case "policylists":
		// References are paths, such as /endpoints/ID.
		var backends []string
		for _, r := range d.strs("References") {
			backends = append(backends, canonicalID(r[strings.LastIndex(r, "/")+1:]))
		}
		if o, ok := s.Get(LoadBalancer, id); ok && len(backends) == 0 {
			backends = o.backends()
		}
		t.Backends = len(backends)
		t.Network = s.networkOfFirst(backends)
	}
	return t
}

// networkOfFirst returns the network of the first endpoint that is there; networkOf "" for one that
// is not.
func (s *State) networkOfFirst(endpoints []string) string {
	for _, e := range endpoints {
		if n := s.networkOf(canonicalID(e)); n != "" {
			return n
		}
	}
	return ""
}

func (s *State) networkOf(endpoint string) string {
	e, ok := s.Get(Endpoint, endpoint)
	if !ok {
		return ""
	}
	return e.endpoint.network
}

// backends are the endpoints that a load balancer or an SDN route names.
func (o *Object) backends() []string {
	if o.balancer != nil {
		return o.balancer.backends
	}
	return o.route.endpoints
}
