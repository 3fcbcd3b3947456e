package hnstest

import (
	"context"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
)

// AddNamespace makes a namespace as a container runtime would.
func (f *Fake) AddNamespace(id hns.NamespaceID) {
	f.EditNamespaces(func(all *[]hns.Namespace) { *all = append(*all, hns.Namespace{ID: id, Type: "Guest"}) })
}

// EditNamespaces changes the host's namespaces without a call to HNS.
func (f *Fake) EditNamespaces(change func(*[]hns.Namespace)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.namespaces)
}

// Namespaces implements the method of hcn.Client.
func (f *Fake) Namespaces(ctx context.Context) ([]hns.Namespace, error) {
	return listing(ctx, f, "list namespaces", func() []hns.Namespace {
		out := slices.Clone(f.namespaces)
		for i := range out {
			out[i].Endpoints = slices.Clone(out[i].Endpoints)
		}
		return out
	})
}

// Namespace implements the method of hcn.Client.
func (f *Fake) Namespace(ctx context.Context, id hns.NamespaceID) (hns.Namespace, error) {
	return doing(ctx, f, "find namespace", func(Outcome) (hns.Namespace, error) {
		for _, n := range f.namespaces {
			if n.ID == id {
				n.Endpoints = slices.Clone(n.Endpoints)
				return n, nil
			}
		}
		return hns.Namespace{}, fail(hns.Absent, 0x490, "find namespace %s", id)
	})
}

// AddToNamespace implements the method of hcn.Client. Doing it again is success. A remote endpoint and one that is in
// another namespace, or in one that HNS does not list, are refused.
func (f *Fake) AddToNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	return f.change(ctx, "add endpoint", func() error {
		namespace := slices.IndexFunc(f.namespaces, func(n hns.Namespace) bool { return n.ID == id })
		i := slices.IndexFunc(f.endpoints, func(e hns.Endpoint) bool { return e.ID == endpoint })
		if namespace < 0 || i < 0 {
			return fail(hns.Absent, 0x490, "add endpoint %s to namespace %s", endpoint, id)
		}

		switch e := &f.endpoints[i]; {
		case e.Namespace != "" && e.Namespace != id, e.Namespace == "" && f.attached[endpoint]:
			return fail(hns.Invalid, hns.CodeInNamespace, "add endpoint %s", endpoint)
		case e.Remote:
			return fail(hns.Unsupported, 0x803b0015, "add endpoint %s", endpoint)
		case e.Namespace == "":
			e.Namespace = id
			f.attached[endpoint] = strings.HasPrefix(f.namespaces[namespace].Type, "Host")
			f.namespaces[namespace].Endpoints = append(f.namespaces[namespace].Endpoints, endpoint)
		}
		return nil
	})
}

// RemoveFromNamespace implements the method of hcn.Client. What is gone is success.
func (f *Fake) RemoveFromNamespace(ctx context.Context, id hns.NamespaceID, endpoint hns.EndpointID) error {
	return f.change(ctx, "remove endpoint", func() error {
		for i := range f.endpoints {
			if f.endpoints[i].ID == endpoint && f.endpoints[i].Namespace == id {
				f.endpoints[i].Namespace = ""
				f.detach(endpoint)
			}
		}
		return nil
	})
}

// detach takes an endpoint out of the lists of all namespaces. The caller holds Fake.mu.
func (o *objects) detach(endpoint hns.EndpointID) {
	delete(o.attached, endpoint)
	for i := range o.namespaces {
		o.namespaces[i].Endpoints = slices.DeleteFunc(o.namespaces[i].Endpoints,
			func(e hns.EndpointID) bool { return e == endpoint })
	}
}

// namespaceType returns the type of a namespace, or its id if it does not exist. The caller holds Fake.mu.
func (o *objects) namespaceType(id hns.NamespaceID) string {
	for _, n := range o.namespaces {
		if n.ID == id {
			return n.Type
		}
	}
	return string(id)
}
