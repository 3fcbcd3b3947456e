package hnsd

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/desired"
)

// V1 is one call of the older interface: a method, a path and a JSON body.
type V1 struct {
	Method string   // upper case
	parts  []string // of the path: a collection, an id, a verb
	body   Doc      // nil: the text is no document; empty without a text
}

// ParseV1 reads a call. One that makes no sense is an error when it is carried out.
func ParseV1(method, path, body string) V1 {
	c := V1{Method: strings.ToUpper(method), parts: strings.Split(strings.Trim(path, "/"), "/"), body: Doc{}}
	if strings.TrimSpace(body) != "" {
		c.body = ParseDoc(body)
	}
	return c
}

// Name is the call without what differs between objects.
// It has the first part of the path and the verb, with * for the id.
func (c V1) Name() string {
	name := c.Method + " /" + c.parts[0] + "/"
	if len(c.parts) > 2 {
		name += "*/" + c.parts[2]
	}
	return name
}

// collection is what the path begins with, in lower case.
func (c V1) collection() string { return strings.ToLower(c.parts[0]) }

// id is that of the object; "" for calls on all of a collection, and for what is no id.
func (c V1) id() string {
	if len(c.parts) < 2 {
		return ""
	}
	return canonicalID(c.parts[1])
}

// verb is the third part of the path, in lower case; "" if there is none.
func (c V1) verb() string {
	if len(c.parts) < 3 {
		return ""
	}
	return strings.ToLower(c.parts[2])
}

// HNSCall carries out a call of the older interface; the answer is {"Success","Error","Output"}. The objects are those
// of the v2 interface, seen in the older form. The new State is s itself when nothing changed.
func (h *Host) HNSCall(s *State, q V1) (*State, string, error) {
	if q.body == nil {
		return s, "", ErrInvalidJSON
	}
	call := v1Call{V1: q, h: h, state: s}
	output, err := call.run()
	// Older builds succeed with the failure in the document; the State is the old one either way.
	var failure *Error
	if errors.As(err, &failure) && h.Profile.V1Success {
		return s, Doc{"Success": false, "Error": failure.Text + " ", "Output": nil}.String(), nil
	}
	if err != nil {
		return s, "", err
	}
	data, err := json.Marshal(map[string]any{"Success": true, "Output": output})
	if err != nil {
		return s, "", ErrInvalidParameter
	}
	return call.state, h.Profile.spelled(string(data)), nil
}

// v1Call is a call that is being carried out.
type v1Call struct {
	V1
	h     *Host
	state *State
}

// run carries out a call of the first version of the API (HNSCall): a path of a collection, an id and perhaps a verb.
// It returns what goes into "Output", and sets c.state if it changed something.
func (c *v1Call) run() (any, error) {
	switch c.collection() {
	case "globals":
		v := c.h.Profile.Version
		return Doc{"Major": v.Major, "Minor": v.Minor}, nil

	case "networks":
		return c.objects(Network, ErrNetworkNotFound)
	case "endpoints":
		if c.verb() == "attach" || c.verb() == "detach" {
			return c.attachment()
		}
		return c.objects(Endpoint, ErrEndpointNotFound)
	case "endpointstats":
		return c.endpointStats()

	case "policylists":
		return c.policyLists()
	case "namespaces":
		if c.verb() != "" {
			return c.resource()
		}
		return c.objects(Namespace, ErrElementNotFound)

	case "accelnet":
		return c.accelnet()
	// Both exist in HNS and list nothing here.
	case "activities", "plugins":
		return []any{}, nil
	}
	return nil, ErrElementNotFound
}

// objects serves list, get, create, update and delete of one kind.
func (c *v1Call) objects(k Kind, missing *Error) (any, error) {
	if len(c.parts) == 1 {
		switch c.Method {
		case "GET":
			out := []any{}
			for _, o := range c.state.List(k) {
				out = append(out, c.h.viewV1(c.state, o))
			}
			return out, nil
		case "POST":
			return c.create(k)
		}
		return nil, ErrInvalidParameter
	}

	// An id that is missing or spelled wrong is the same as one that is not there.
	o, ok := c.state.Get(k, c.id())
	if !ok {
		return nil, missing
	}
	switch c.Method {
	case "GET":
		return c.h.viewV1(c.state, o), nil
	case "DELETE":
		// The answer shows the object as it was.
		view := c.h.viewV1(c.state, o)
		n, err := c.h.Delete(c.state, k, o.ID)
		if err != nil {
			return nil, err
		}
		c.state = n
		return view, nil
	case "POST":
		return c.update(o)
	}
	return nil, ErrInvalidParameter
}

// create makes an object from a document of v1, and returns it as v1 shows it. What exists already has other error
// codes than in v2.
func (c *v1Call) create(k Kind) (any, error) {
	if k == Network && c.h.Profile.UniqueNames {
		for _, o := range c.state.List(Network) {
			if o.network.name == c.body.str("Name") {
				return nil, ErrNetworkAlreadyExists
			}
		}
	}
	n, id, err := c.h.create(c.state, fromV1(k, c.body), "", "")
	if k == Endpoint && errors.Is(err, ErrAlreadyExists) {
		return nil, ErrObjectAlreadyExists
	}
	if err != nil {
		return nil, err
	}
	c.state = n
	o, _ := n.Get(k, id)
	return c.h.viewV1(n, o), nil
}

// update replaces the policies (a complete list) and, of a network, its DNS settings.
func (c *v1Call) update(o *Object) (any, error) {
	n := c.state.clone()
	changed := o.edit()
	given := fromV1(o.Kind, c.body)
	known := endpointPolicies
	if o.Kind == Network {
		known = networkPolicies
	}
	if c.body.has("Policies") {
		// Fields that the body does not have stay as they are.
		list, err := c.h.Profile.policies(given.Doc.docs("Policies"), known)
		if err != nil {
			return nil, err
		}
		changed.Doc.set("Policies", list)
	}
	if given.Doc.has("Dns") {
		changed.Doc.set("Dns", given.Doc.value("Dns"))
	}
	changed.Doc = changed.Doc.copy()
	n.put(changed)
	c.state = n
	return c.h.viewV1(n, changed), nil
}

// attachment attaches to the host's compartment (SystemType Host) or detaches. Containers and virtual machines attach
// through the compute service, which is not emulated.
func (c *v1Call) attachment() (any, error) {
	o, ok := c.state.Get(Endpoint, c.id())
	if !ok {
		return nil, ErrEndpointNotFound
	}

	n := c.state.clone()
	var err error
	now := o.endpoint.namespace
	switch {
	case c.verb() == "detach" && now == ZeroID:
		err = ErrEndpointNotAttached
	case c.verb() == "detach":
		err = detach(n, now, o.ID)
	case now != ZeroID:
		err = ErrAlreadyAttached
	case strings.EqualFold(c.body.str("SystemType"), "Host"):
		err = attachToHost(n, o.ID, c.h.NewID)
	default:
		err = ErrRequestUnsupported
	}
	if err != nil {
		return nil, err
	}
	// The object is read again: attaching has replaced it.
	c.state = n
	o, _ = n.Get(Endpoint, o.ID)
	return c.h.viewV1(n, o), nil
}

// attachToHost attaches an endpoint to the host's compartment, which needs no namespace. Windows lists one afterwards
// (unverified, no. 65).
func attachToHost(n *State, endpoint string, newID func() string) error {
	if hostNamespace(n) == "" {
		n.put(hostDefault(newID()))
	}
	return attach(n, hostNamespace(n), endpoint)
}

// hostNamespace is the oldest namespace of the host's own compartment.
func hostNamespace(s *State) string {
	for _, o := range s.List(Namespace) {
		if o.namespace.host() {
			return o.ID
		}
	}
	return ""
}

// endpointStats answers what the data plane has counted for an endpoint; one without a port has sent and received
// nothing.
func (c *v1Call) endpointStats() (any, error) {
	o, ok := c.state.Get(Endpoint, c.id())
	if !ok {
		return nil, ErrEndpointNotFound
	}
	var t desired.Traffic
	if c.h.Traffic != nil {
		t = c.h.Traffic(o.ID)
	}
	return Doc{"EndpointId": strings.ToUpper(o.ID), "InstanceId": strings.ToUpper(o.ID),
		"BytesReceived": t.BytesReceived, "BytesSent": t.BytesSent,
		"PacketsReceived": t.PacketsReceived, "PacketsSent": t.PacketsSent, "DroppedPacketsIncoming": t.DroppedIncoming,
		"DroppedPacketsOutgoing": t.DroppedOutgoing}, nil
}

// policyLists are the load balancers and SDN routes.
func (c *v1Call) policyLists() (any, error) {
	if len(c.parts) == 1 && c.Method == "GET" {
		out := []any{}
		for _, k := range []Kind{LoadBalancer, Route} {
			for _, o := range c.state.List(k) {
				out = append(out, c.h.viewV1(c.state, o))
			}
		}
		return out, nil
	}
	if len(c.parts) == 1 {
		k := LoadBalancer
		if p := c.body.docs("Policies"); len(p) > 0 && strings.EqualFold(p[0].str("Type"), "ROUTE") {
			k = Route
		}
		return c.create(k)
	}
	// The two kinds share a path; an id is of the one or the other.
	k := LoadBalancer
	if _, ok := c.state.Get(Route, c.id()); ok {
		k = Route
	}
	return c.objects(k, ErrElementNotFound)
}

// resource adds or removes a namespace's endpoint or container by the verbs addresource and removeresource.
func (c *v1Call) resource() (any, error) {
	o, ok := c.state.Get(Namespace, c.id())
	if !ok {
		return nil, ErrElementNotFound
	}

	// Data and Id are v1's spelling of what v2 has as Data and ID.
	id := c.body.doc("Data").str("Id")
	n := c.state.clone()
	var err error
	switch add := c.verb() == "addresource"; {
	case !add && c.verb() != "removeresource":
		err = ErrInvalidParameter
	case !strings.EqualFold(c.body.str("Type"), "Endpoint"):
		err = setResource(n, o.ID, "Container", id, add)
	case add:
		err = attach(n, o.ID, canonicalID(id))
	default:
		err = detach(n, o.ID, canonicalID(id))
	}
	if err != nil {
		return nil, err
	}
	c.state = n
	o, _ = n.Get(Namespace, o.ID)
	return c.h.viewV1(n, o), nil
}

// accelnet keeps the list of management MAC addresses: state only.
func (c *v1Call) accelnet() (any, error) {
	if c.Method == "GET" {
		return accelnetView(c.state), nil
	}
	if !c.h.Profile.Version.AtLeast(15, 4) {
		return nil, ErrNotImplemented
	}
	n := c.state.clone()
	// Methods other than POST clear the list.
	n.accelnet = nil
	if c.Method == "POST" {
		n.accelnet = slices.Clone(c.state.accelnet)
		for _, m := range c.body.docs("MacAddressList") {
			mac := canonicalMAC(m.str("MacAddress"))
			if mac == "" {
				return nil, ErrInvalidParameter
			}
			if !slices.Contains(n.accelnet, mac) {
				n.accelnet = append(n.accelnet, mac)
			}
		}
	}
	c.state = n
	return accelnetView(n), nil
}

// accelnetView is never null.
func accelnetView(s *State) any {
	list := []Doc{}
	for _, mac := range s.accelnet {
		list = append(list, Doc{"MacAddress": mac})
	}
	return Doc{"MacAddressList": list}
}
