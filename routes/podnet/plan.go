package podnet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
)

// Seen is what HNS has of the pod network.
type Seen struct {
	Network   hns.Network        // the one with the wanted name; zero if there is none
	Ours      bool               // this process created Network, as it is wanted now
	Endpoints []hns.Endpoint     // those of Network
	Host      hns.Namespace      // the namespace of the host's own compartment; zero if there is none
	Adapter   bool               // an adapter of the host has the address of the host's endpoint
	Overdue   bool               // the endpoint is attached and has no adapter, for too long
	Balancers []hns.LoadBalancer // all of the host, if Network does not fit
	Base      bool               // the network that stays over reboots is there
}

// Difference is one property in which a network of our name is not the wanted one.
type Difference struct{ Field, Wanted, Found string }

func (d Difference) String() string {
	return fmt.Sprintf("%s: wanted %s, found %s", d.Field, d.Wanted, d.Found)
}

// Diff returns the properties in which the found network does not fit: type, subnets, their gateways and virtual
// subnets. Other properties and further subnets do not count, because HNS adds some by itself; nor does a gateway that
// HNS does not report.
func Diff(wanted, found hns.Network) []Difference {
	var list []Difference
	if wanted.Extension != "" && !strings.EqualFold(wanted.Extension, found.Extension) {
		list = append(list, Difference{"switch extension", wanted.Extension, cmp.Or(found.Extension, "none")})
	}
	if found.Type != wanted.Type {
		list = append(list, Difference{"type", wanted.Type, found.Type})
	}

	for _, s := range wanted.Subnets {
		i := slices.IndexFunc(found.Subnets, func(f hns.Subnet) bool { return f.Prefix.Masked() == s.Prefix })
		switch {
		case i < 0:
			list = append(list, Difference{"subnet", s.Prefix.String(), subnets(found)})
		case found.Subnets[i].Gateway.IsValid() && found.Subnets[i].Gateway != s.Gateway:
			list = append(list, Difference{"gateway of " + s.Prefix.String(), s.Gateway.String(),
				addr(found.Subnets[i].Gateway)})
		}
		if i >= 0 && found.Subnets[i].VSID != s.VSID {
			list = append(list, Difference{"virtual subnet of " + s.Prefix.String(), fmt.Sprint(s.VSID),
				fmt.Sprint(found.Subnets[i].VSID)})
		}
	}
	return list
}

func subnets(n hns.Network) string {
	var texts []string
	for _, s := range n.Subnets {
		texts = append(texts, s.Prefix.Masked().String())
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

func addr(a netip.Addr) string {
	if !a.IsValid() {
		return "none"
	}
	return a.String()
}

// DiffersError says that a network of our name does not fit and is not replaced, because it holds endpoints.
type DiffersError struct {
	Network     string
	Differences []Difference
	Endpoints   []string // names of the endpoints that a replacement would delete
}

func (e *DiffersError) Error() string {
	return fmt.Sprintf(
		"HNS network %s is not as this node needs it (%s), and it is not replaced because it holds endpoints (%s): "+
			"remove what uses them, or start porthole routes with --replace-network, which deletes the network and its endpoints",
		e.Network, joinDifferences(e.Differences), shortened(e.Endpoints))
}

// NeedsDecision marks an error about which somebody has to decide.
func (*DiffersError) NeedsDecision() {}

// shortened lists some of the names.
func shortened(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func joinDifferences(list []Difference) string {
	var texts []string
	for _, d := range list {
		texts = append(texts, d.String())
	}
	return strings.Join(texts, "; ")
}

// Verb of an Op.
type Verb string

// Verbs, in the order of a plan. What is created is the network and the host's endpoint of the wanted Network.
const (
	DeleteBalancer  Verb = "delete load balancer"
	DeleteEndpoint  Verb = "delete endpoint"
	DeleteNetwork   Verb = "delete network"
	CreateBase      Verb = "create network that stays"
	CreateNetwork   Verb = "create network"
	AddHostRoute    Verb = "add host route to"
	CreateHost      Verb = "create host endpoint"
	CreateNamespace Verb = "create host namespace"
	AttachHost      Verb = "attach host endpoint"
)

// Op is one change in HNS.
type Op struct {
	Verb     Verb
	Endpoint hns.EndpointID     // of DeleteEndpoint; of AttachHost unless it is created first
	Balancer hns.LoadBalancerID // of DeleteBalancer
	Name     string             // what the change is about, for messages
}

// Plan is what has to be done in HNS, in order.
type Plan struct {
	// Replaces says why a network of our name is replaced; empty if none is.
	Replaces []Difference
	// Accepts is what differs in a network that is left as it is, because this process created it and would get the
	// same again.
	Accepts []Difference
	Ops     []Op
}

func (p Plan) has(verb Verb) bool {
	return slices.ContainsFunc(p.Ops, func(o Op) bool { return o.Verb == verb })
}

// String returns the plan as tests show it.
func (p Plan) String() string {
	var b strings.Builder
	for _, d := range p.Replaces {
		fmt.Fprintf(&b, "replace: %s\n", d)
	}
	for _, d := range p.Accepts {
		fmt.Fprintf(&b, "accept: %s\n", d)
	}
	for _, o := range p.Ops {
		fmt.Fprintf(&b, "%s %s\n", o.Verb, o.Name)
	}
	return b.String()
}

// MakePlan compares HNS with the wanted network. A network that fits is left alone. One that does not is replaced if
// replace is true or if no pod of this node has an endpoint in it; otherwise the result is a *DiffersError. One that
// this process created is not replaced: HNS reports it differently from how it was created, and would report the next
// one like that.
//
// The host's endpoint counts as attached if HNS lists it as attached or if an adapter of the host has its address. If
// it is listed as attached and no adapter has its address for too long, the endpoint is deleted and created again.
func MakePlan(wanted Network, seen Seen, replace bool) (Plan, error) {
	p, endpoints := Plan{}, seen.Endpoints
	differences := []Difference(nil)
	if seen.Network.ID != "" {
		differences = Diff(wanted.HNS, seen.Network)
	}

	switch {
	case len(differences) == 0:
	case seen.Ours:
		p.Accepts = differences
	default:
		if used := users(wanted.Host.Name, endpoints); len(used) > 0 && !replace {
			return Plan{}, &DiffersError{Network: wanted.HNS.Name, Differences: differences, Endpoints: used}
		}
		p.Replaces = differences
		p.Ops = removal(wanted.HNS.Name, seen)
		endpoints = nil
	}
	if wanted.Base.Name != "" && !seen.Base {
		p.Ops = slices.Insert(p.Ops, 0, Op{Verb: CreateBase, Name: wanted.Base.Name})
	}
	missing := seen.Network.ID == "" || len(p.Replaces) > 0
	if missing {
		p.Ops = append(p.Ops, Op{Verb: CreateNetwork, Name: wanted.HNS.Name})
	}
	if wanted.HNS.HostRoute && (missing || !seen.Network.HostRoute) {
		p.Ops = append(p.Ops, Op{Verb: AddHostRoute, Name: wanted.HNS.Name})
	}

	if wanted.Host.Name != "" {
		p.planHost(wanted, seen, endpoints)
	}
	return p, nil
}

// removal plans the deletion of a network. Load balancers are deleted first, because those of a deleted network break
// later ones (microsoft/Windows-Containers#79); then endpoints, because HNS refuses to delete a network with an
// endpoint in a namespace.
func removal(name string, seen Seen) []Op {
	var ops []Op
	for _, lb := range seen.Balancers {
		on := slices.ContainsFunc(seen.Endpoints,
			func(e hns.Endpoint) bool { return slices.Contains(lb.Endpoints, e.ID) })
		if on {
			ops = append(ops, Op{Verb: DeleteBalancer, Balancer: lb.ID, Name: string(lb.ID)})
		}
	}
	for _, e := range seen.Endpoints {
		ops = append(ops, Op{Verb: DeleteEndpoint, Endpoint: e.ID, Name: e.Name})
	}
	return append(ops, Op{Verb: DeleteNetwork, Name: name})
}

// planHost plans what makes the host's endpoint and attaches it. endpoints are those that the network will have.
func (p *Plan) planHost(wanted Network, seen Seen, endpoints []hns.Endpoint) {
	host, found := hostEndpoint(wanted.Host.Name, endpoints)
	if wanted.Apart {
		if !found {
			p.Ops = append(p.Ops, Op{Verb: CreateHost, Name: wanted.Host.Name})
		}
		return
	}
	listed := found && attached(host, seen.Host)
	switch {
	case found && seen.Overdue:
		p.Ops = append(p.Ops, Op{Verb: DeleteEndpoint, Endpoint: host.ID, Name: host.Name})
		host, found = hns.Endpoint{}, false
	case listed, found && seen.Adapter:
		return
	}

	if !found {
		p.Ops = append(p.Ops, Op{Verb: CreateHost, Name: wanted.Host.Name})
	}
	if seen.Host.ID == "" {
		p.Ops = append(p.Ops, Op{Verb: CreateNamespace, Name: "HostDefault"})
	}
	p.Ops = append(p.Ops, Op{Verb: AttachHost, Endpoint: host.ID, Name: wanted.Host.Name})
}

// users returns the names of the endpoints of pods on this node. The host's own is none of them, nor are remote ones:
// a service proxy makes those for pods elsewhere, and makes them again.
func users(host string, endpoints []hns.Endpoint) []string {
	var names []string
	for _, e := range endpoints {
		if e.Name != host && !e.Remote {
			names = append(names, e.Name)
		}
	}
	return names
}

// hostEndpoint returns the host's own endpoint, the last one if there are several.
func hostEndpoint(name string, endpoints []hns.Endpoint) (host hns.Endpoint, found bool) {
	for _, e := range endpoints {
		if e.Name == name && !e.Remote {
			host, found = e, true
		}
	}
	return host, found
}

func attached(e hns.Endpoint, host hns.Namespace) bool {
	return host.ID != "" && (hns.NormalID(string(e.Namespace)) == hns.NormalID(string(host.ID)) ||
		slices.Contains(host.Endpoints, e.ID))
}
