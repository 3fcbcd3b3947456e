package hnsd

import "slices"

// namespaceTypes are in the order of their numbers in the API.
var namespaceTypes = []string{"Host", "HostDefault", "Guest", "GuestDefault"}

// createNamespace gives the namespace a compartment of its own. The id that a caller asks for is not taken: real HNS
// numbers compartments itself. A missing type is a guest, as container runtimes create them.
func createNamespace(n *State, o *Object) error {
	d := o.Doc
	if d.has("Type") {
		kind := enum(d, "Type", namespaceTypes...)
		if kind == "" {
			return ErrInvalidParameter
		}
		d.set("Type", kind)
	}
	if d.str("Type") == "HostDefault" && hostNamespace(n) == "" {
		d.set("NamespaceId", 1)
	} else { // more than one HostDefault is no error: hcsshim's tests make them (hcnutils_test.go)
		n.compartment++
		d.set("NamespaceId", n.compartment)
	}
	if canonicalID(d.str("NamespaceGuid")) == "" {
		d.set("NamespaceGuid", o.ID)
	}

	// Resources of other types are not kept.
	resources := d.docs("Resources")
	d.set("Resources", []any{})
	for _, r := range resources {
		if r.str("Type") == "Endpoint" {
			return ErrInvalidParameter.WithText("Endpoints are added to a namespace after its creation.")
		}
	}
	return nil
}

// CreateGuest makes the namespace for a Linux network namespace that a container runtime made, or finds it.
func (h *Host) CreateGuest(s *State, path string) (*State, string, error) {
	for _, o := range s.List(Namespace) {
		if o.Path == path {
			return s, o.ID, nil
		}
	}
	// The document is what a runtime that calls HNS would send.
	o := &Object{Kind: Namespace, Path: path, Doc: Doc{"Type": "Guest", "SchemaVersion": Doc{"Major": 2, "Minor": 0}}}
	return h.create(s, o, "", "")
}

// Bind records the path of the Linux network namespace that an HCN namespace stands for. It returns s itself if
// nothing changes.
func (s *State) Bind(id, path string) *State {
	o, ok := s.Get(Namespace, id)
	if !ok || o.Path == path {
		return s
	}
	n, bound := s.clone(), *o
	bound.Path = path
	n.put(&bound)
	return n
}

// modifyNamespace attaches or detaches an endpoint, or notes or forgets a container, which has no effect on packets.
func modifyNamespace(n *State, o *Object, d Doc) error {
	m, err := parseModification(d, "Container", "Endpoint")
	if err != nil {
		return err
	}
	if m.request != "Add" && m.request != "Remove" {
		return ErrInvalidParameter
	}
	if m.resource == "Endpoint" {
		id := canonicalID(m.settings.str("EndpointId"))
		if m.request == "Add" {
			return attach(n, o.ID, id)
		}
		return detach(n, o.ID, id)
	}
	return setResource(n, o.ID, "Container", m.settings.str("ContainerId"), m.request == "Add")
}

// attach moves an endpoint into a namespace. Doing it again is an error, as flannel-io/flannel#1391 saw it.
func attach(n *State, namespace, endpoint string) error {
	e, ok := n.Get(Endpoint, endpoint)
	if !ok {
		return ErrEndpointNotFound
	}
	if e.endpoint.attached() {
		return ErrInNamespace
	}
	return place(n, namespace, e)
}

// place records that an endpoint is in a namespace.
// It refuses remote endpoints, and does not look at where the endpoint was before.
func place(n *State, namespace string, e *Object) error {
	if e.endpoint.remote {
		return ErrRequestUnsupported
	}
	if err := setResource(n, namespace, "Endpoint", e.ID, true); err != nil {
		return err
	}
	e = e.edit()
	e.Doc.set("HostComputeNamespace", namespace)
	e.Doc.set("State", stateAttached)
	e.Doc = e.Doc.copy()
	n.put(e)
	return nil
}

// detach leaves the endpoint without a namespace.
func detach(n *State, namespace, endpoint string) error {
	e, ok := n.Get(Endpoint, endpoint)
	if !ok || e.endpoint.namespace != namespace {
		return ErrElementNotFound
	}
	// The namespace may be gone, after a loss; the endpoint is then detached all the same.
	if _, ok := n.Get(Namespace, namespace); ok {
		if err := setResource(n, namespace, "Endpoint", endpoint, false); err != nil {
			return err
		}
	}
	e = e.edit()
	e.Doc.set("HostComputeNamespace", ZeroID)
	e.Doc.set("State", stateCreated)
	e.Doc = e.Doc.copy()
	n.put(e)
	return nil
}

// setResource puts a resource into the namespace's list or takes it out. A second time in is no change.
func setResource(n *State, namespace, kind, id string, present bool) error {
	o, ok := n.Get(Namespace, namespace)
	if !ok || id == "" {
		return ErrElementNotFound
	}
	o = o.edit()
	list := o.Doc.docs("Resources")
	i := slices.IndexFunc(list, func(r Doc) bool { return r.str("Type") == kind && r.doc("Data").str("ID") == id })
	switch {
	case present && i < 0:
		list = append(list, Doc{"Type": kind, "Data": Doc{"ID": id}})
	case !present && i >= 0:
		list = slices.Delete(list, i, i+1)
	case !present:
		return ErrElementNotFound
	}
	// The list is never null in the document.
	if list == nil {
		list = []Doc{}
	}
	o.Doc.set("Resources", list)
	o.Doc = o.Doc.copy()
	n.put(o)
	return nil
}
