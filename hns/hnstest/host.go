package hnstest

import (
	"context"
	"net/netip"
	"slices"

	"porthole.dev/porthole/hns"
)

// Host is a Fake with the calls about the host's own compartment, those of hcn.Host.
type Host struct{ *Fake }

// CreateHostNamespace implements the method of hcn.Host.
func (f Host) CreateHostNamespace(ctx context.Context) (hns.Namespace, error) {
	return doing(ctx, f.Fake, "create host namespace", func(Outcome) (hns.Namespace, error) {
		if slices.ContainsFunc(f.namespaces, func(n hns.Namespace) bool { return n.Type == "HostDefault" }) {
			return hns.Namespace{}, fail(hns.Exists, 0x803b0029, "create host namespace")
		}
		host := hns.Namespace{ID: HostNamespace, Type: "HostDefault"}
		f.namespaces = append(f.namespaces, host)
		return host, nil
	})
}

// AttachToHost implements the method of hcn.Host. It needs no host namespace. If there is one, the endpoint is in it
// afterwards.
func (f Host) AttachToHost(ctx context.Context, endpoint hns.EndpointID) error {
	return f.change(ctx, "attach endpoint", func() error {
		i := slices.IndexFunc(f.endpoints, func(e hns.Endpoint) bool { return e.ID == endpoint })
		switch {
		case i < 0:
			return fail(hns.Absent, 0x803b0002, "attach endpoint %s", endpoint)
		case f.attached[endpoint]:
			return fail(hns.Exists, hns.CodeAttached, "attach endpoint %s", endpoint)
		}
		f.attached[endpoint] = true
		for n := range f.namespaces {
			if f.namespaces[n].Type == "HostDefault" {
				f.endpoints[i].Namespace = f.namespaces[n].ID
				f.namespaces[n].Endpoints = append(f.namespaces[n].Endpoints, endpoint)
			}
		}
		return nil
	})
}

// NameOf implements the method of routes/adapters.Keeper: an endpoint that is attached to the host has an adapter
// named after it.
func (f Host) NameOf(addr netip.Addr) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.endpoints {
		if f.attached[e.ID] && e.Has(addr) && !f.noAdapters {
			return "vEthernet (" + e.Name + ")", nil
		}
	}
	return "", nil
}

// WithoutAdapters makes HNS give endpoints that are attached to the host no adapter (see NameOf), or one again.
func (f Host) WithoutAdapters(without bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noAdapters = without
}

// ForgetNamespaces makes HNS list all endpoints as if they were in no namespace, as it may after a reboot. They are
// still attached.
func (f Host) ForgetNamespaces() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.endpoints {
		f.endpoints[i].Namespace = ""
	}
	for i := range f.namespaces {
		f.namespaces[i].Endpoints = nil
	}
}
