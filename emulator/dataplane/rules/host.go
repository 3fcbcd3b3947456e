// Package rules renders the rules of one family of an emulated host: what HNS says of endpoints' policies and of load
// balancers, as chains and elements of package table. It is pure.
package rules

import (
	"net/netip"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// Host is what rules are made of: facts of the machine, and the objects of HNS by id.
type Host struct {
	Facts      kernel.Facts
	Networks   map[string]*desired.Network // those that are carried
	Namespaces map[string]*desired.Namespace
	Endpoints  map[string]*desired.Endpoint
	Rejected   map[string]error // objects that cannot be carried, by id
}

// NewHost is a host without objects.
func NewHost(f kernel.Facts) *Host {
	return &Host{Facts: f, Networks: map[string]*desired.Network{}, Namespaces: map[string]*desired.Namespace{},
		Endpoints: map[string]*desired.Endpoint{}, Rejected: map[string]error{}}
}

// node is the node's own address in a family.
func (h *Host) node(f table.Family) netip.Addr {
	if f == table.IPv6 {
		return h.Facts.Node6
	}
	return h.Facts.Node
}

// bridge is the name of the bridge that has the port of an endpoint; "": it has no port on this host.
func (h *Host) bridge(endpoint string) string {
	e := h.Endpoints[endpoint]
	ns := h.Namespaces[e.Namespace]
	if n := h.Networks[e.Network]; n != nil && ns != nil && !e.Remote && !ns.Host {
		return kernel.BridgeName(n.ID)
	}
	return ""
}
