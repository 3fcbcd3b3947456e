package hnsd

import (
	"encoding/json"
	"slices"
	"strings"
)

// Enumerate gives the ids of all objects that match a query: "" or {} mean all. A filter key that no object has, and
// an empty ID, match nothing.
func (h *Host) Enumerate(s *State, k Kind, query string) ([]string, error) {
	filter, err := parseFilter(query)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, o := range s.List(k) {
		if h.matches(s, o, filter) {
			ids = append(ids, h.Profile.spelled(o.ID))
		}
	}
	return ids, nil
}

// parseFilter takes the filter out of a query. Samples also pass the bare filter as the query.
func parseFilter(query string) (Doc, error) {
	if strings.TrimSpace(query) == "" {
		return nil, nil
	}
	q, err := parseDoc(query)
	if err != nil {
		return nil, err
	}
	// A filter is given as an object, or as a text that holds one; an empty text is none.
	if q.has("Filter") {
		switch f := q.value("Filter").(type) {
		case string:
			if strings.TrimSpace(f) == "" {
				return nil, nil
			}
			return parseDoc(f)
		default:
			return asDoc(f), nil
		}
	}

	// Of a bare filter everything counts but the fields that a query has beside its filter.
	filter := Doc{}
	for name, v := range q {
		if !slices.ContainsFunc([]string{"SchemaVersion", "Flags"},
			func(n string) bool { return strings.EqualFold(n, name) }) {
			filter[name] = v
		}
	}
	return filter, nil
}

// matches reports whether an object fits every key of the filter. Keys are compared without regard to case, names
// exactly.
func (h *Host) matches(s *State, o *Object, filter Doc) bool {
	for name := range filter {
		want := filter.str(name)
		switch strings.ToLower(name) {
		// Keys that no kind has match nothing, so that a filter with a wrong key does not mean all
		// objects.
		case "id":
			if want == "" || !h.Profile.sameID(want, o.ID) {
				return false
			}
		case "name":
			if o.Doc.str("Name") != want {
				return false
			}

		case "virtualnetwork":
			if o.Kind != Endpoint || !h.Profile.sameID(want, o.endpoint.network) {
				return false
			}
		case "virtualnetworkname":
			if o.Kind != Endpoint {
				return false
			}
			if n, ok := s.Get(Network, o.endpoint.network); !ok || n.network.name != want {
				return false
			}

		default:
			return false
		}
	}
	return true
}

// Query gives an object's document. The query's filter is ignored: clients send the one they enumerated with.
func (h *Host) Query(s *State, k Kind, id, query string) (string, error) {
	o, ok := s.Get(k, id)
	if !ok {
		return "", ErrElementNotFound
	}
	// A query that asks for schema version 1 gets the document of the older interface.
	if q, err := parseDoc(query); err == nil && q.doc("SchemaVersion").num("Major") == 1 {
		return h.Profile.spelled(h.viewV1(s, o).String()), nil
	}
	return h.Profile.spelled(h.view(s, o).String()), nil
}

// view adds the fields that HNS itself gives.
func (h *Host) view(_ *State, o *Object) Doc {
	d := o.Doc.copy()
	d["Version"] = h.Profile.Version.number()
	if !d.has("Health") {
		d["Health"] = Doc{"Extra": Doc{}}
	}
	if o.Kind == Network && h.Profile.OtherForm {
		withoutGateways(d)
	}
	return d
}

// Open reports whether an object is there.
func (h *Host) Open(s *State, k Kind, id string) error {
	if _, ok := s.Get(k, id); ok {
		return nil
	}
	if k == Network {
		return h.Profile.UnknownNetwork
	}
	return ErrElementNotFound
}

// Create makes an object. parent is the network of an endpoint; guid the id wanted by the call's argument (ZeroID:
// none), over which an ID in the settings wins.
func (h *Host) Create(s *State, k Kind, parent, guid string, d Doc) (*State, string, error) {
	if d == nil {
		return nil, "", ErrInvalidJSON
	}
	o := &Object{Kind: k, Doc: d}
	if !d.has("SchemaVersion") {
		o = fromV1(k, d)
	}
	return h.create(s, o, parent, guid)
}

// create adds the object o to a copy of s and returns the copy and the object's id. Fields that only HNS sets are
// removed from the document first: programs send back what they have read. An endpoint that names a namespace is
// attached to it in the same step.
// Nothing of s is changed: objects are put into a copy, which is dropped if a rule refuses.
func (h *Host) create(s *State, o *Object, parent, guid string) (*State, string, error) {
	if err := h.identify(s, o, guid); err != nil {
		return nil, "", err
	}
	for _, name := range []string{"Version", "Health", "State", "Resources", "ActivityId", "SwitchGuid"} {
		if o.Kind == Namespace && name == "Resources" {
			continue
		}
		if key, ok := o.Doc.key(name); ok {
			delete(o.Doc, key)
		}
	}

	// The rules of a kind work on the copy, because an endpoint's creation may look at and change
	// others.
	n := s.clone()
	var err error
	switch o.Kind {
	case Network:
		err = h.createNetwork(n, o)
	case Endpoint:
		err = h.createEndpoint(n, o, parent)
	case Namespace:
		err = createNamespace(n, o)
	case LoadBalancer:
		err = h.checkLoadBalancer(n, o)
	case Route:
		err = checkRoute(n, o)
	}
	if err != nil {
		return nil, "", err
	}
	// The document is copied, so that what the caller holds and what the State has are two.
	o.Doc = o.Doc.copy()
	n.put(o)
	if o.Kind == Endpoint && o.endpoint.attached() {
		if err := place(n, o.endpoint.namespace, o); err != nil {
			return nil, "", err
		}
	}
	return n, o.ID, nil
}

// identify settles the object's id.
// It fails if an object of that kind has the id.
func (h *Host) identify(s *State, o *Object, guid string) error {
	id := o.Doc.str("ID")
	switch {
	case id != "" && canonicalID(id) == "":
		return ErrInvalidParameter
	case id != "" && canonicalID(id) != ZeroID:
		o.ID = canonicalID(id)
	case canonicalID(guid) != "" && canonicalID(guid) != ZeroID:
		o.ID = canonicalID(guid)
	default:
		o.ID = h.NewID()
	}
	if _, taken := s.Get(o.Kind, o.ID); taken {
		return ErrAlreadyExists
	}
	o.Doc.set("ID", o.ID)
	return nil
}

// Modify changes an object: a request document, or for load balancers the complete new document.
func (h *Host) Modify(s *State, k Kind, id string, d Doc) (*State, error) {
	o, ok := s.Get(k, id)
	if !ok {
		return nil, ErrElementNotFound
	}
	if d == nil {
		return nil, ErrInvalidJSON
	}

	// Rules that change the document in place get an edited copy of the object; the others make one
	// themselves.
	n := s.clone()
	var err error
	switch k {
	case Network:
		err = h.modifyNetwork(n, o.edit(), d)
	case Endpoint:
		err = h.modifyEndpoint(n, o.edit(), d)
	case Namespace:
		err = modifyNamespace(n, o, d)
	case LoadBalancer:
		err = h.modifyLoadBalancer(n, o, d)
	case Route:
		err = modifyRoute(n, o, d)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Delete removes an object and what lives in it only.
func (h *Host) Delete(s *State, k Kind, id string) (*State, error) {
	o, ok := s.Get(k, id)
	if !ok {
		return nil, ErrElementNotFound
	}
	n := s.clone()
	switch k {
	// A network takes its endpoints with it, unless one is in a namespace.
	case Network:
		for _, e := range s.endpointsHaving(networkOf, id) {
			if e.endpoint.attached() {
				return nil, ErrHasReferences
			}
			n.drop(Endpoint, e.ID)
		}
	case Endpoint:
		if o.endpoint.attached() {
			if err := detach(n, o.endpoint.namespace, id); err != nil {
				return nil, err
			}
		}
	// The endpoints of a namespace stay, in no namespace.
	case Namespace:
		for _, e := range s.endpointsHaving(namespaceOf, id) {
			if err := detach(n, id, e.ID); err != nil {
				return nil, err
			}
		}
	}

	n.drop(k, id)
	return n, nil
}

// modification is a request document: {"ResourceType","RequestType","Settings"}.
type modification struct {
	resource, request string
	settings          Doc
}

// resources are the words that the kind accepts, in the order of their numbers in the API.
func parseModification(d Doc, resources ...string) (modification, error) {
	m := modification{
		resource: enum(d, "ResourceType", resources...),
		request:  enum(d, "RequestType", "Add", "Remove", "Update", "Refresh", "Reset"),
		settings: d.doc("Settings"),
	}
	if m.resource == "" || m.request == "" {
		return m, ErrInvalidParameter
	}
	return m, nil
}

// policies checks and normalises the policies of a document, against the types known for its kind.
func (p Profile) policies(list []Doc, known []string) ([]any, error) {
	out := []any{}
	for _, policy := range list {
		i := slices.IndexFunc(known, func(t string) bool { return strings.EqualFold(t, policy.str("Type")) })
		if i < 0 || !p.supports(known[i]) {
			return nil, ErrInvalidPolicyType.WithText("The policy type %s is not known to this version of HNS.",
				policy.str("Type"))
		}
		policy.set("Type", known[i])

		// Older documents have Data where newer ones have Settings, and either may be a text that
		// holds JSON.
		if policy.has("Data") && !policy.has("Settings") {
			policy.set("Settings", policy.value("Data"))
			delete(policy, "Data")
		}
		if text, ok := policy.value("Settings").(string); ok {
			var settings any
			if json.Unmarshal([]byte(text), &settings) != nil {
				return nil, ErrInvalidPolicy
			}
			policy.set("Settings", settings)
		}
		out = append(out, map[string]any(policy))
	}
	return out, nil
}

// changePolicies applies a policy request to a list: Add appends, Remove takes away what matches the given fields,
// Update replaces every policy of the given types.
func (p Profile) changePolicies(d Doc, m modification, known []string) error {
	given, err := p.policies(m.settings.docs("Policies"), known)
	if err != nil {
		return err
	}
	have := d.docs("Policies")
	// Policies are the same if the fields that one of them names have the same values in the other:
	// for Add in both directions, for Remove only those that the request names.
	same := func(a, b Doc) bool {
		return a.str("Type") == b.str("Type") && a.doc("Settings").covers(b.doc("Settings"))
	}
	switch m.request {
	case "Add":
		for _, g := range given {
			g := asDoc(g)
			if slices.ContainsFunc(have, func(p Doc) bool { return same(p, g) && same(g, p) }) {
				return ErrPolicyAlreadyExists
			}
			have = append(have, g)
		}
	case "Remove":
		for _, g := range given {
			g := asDoc(g)
			before := len(have)
			have = slices.DeleteFunc(have, func(p Doc) bool { return same(p, g) })
			if len(have) == before {
				return ErrElementNotFound
			}
		}
	// All policies of the given types go before any is added, so that several of one type can be
	// given.
	case "Update":
		for _, g := range given {
			have = slices.DeleteFunc(have, func(p Doc) bool { return p.str("Type") == asDoc(g).str("Type") })
		}
		for _, g := range given {
			have = append(have, asDoc(g))
		}
	case "Reset":
		have = []Doc{}
	}

	d.set("Policies", have)
	return nil
}
