package path

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
)

// longest is the greatest number of machines that a packet may pass; more is taken for a routing loop.
const longest = 8

// Follow returns the hops of the packet that r asks for. The error is for a request that cannot be resolved: an
// unknown name, or a destination with several ports of which none is chosen. Whatever is wrong or unknown on the way
// is in the Result.
func Follow(f *Facts, r Request) (Result, error) {
	from, err := f.source(r.From)
	if err != nil {
		return Result{}, err
	}
	to, err := f.target(r.To, r.Protocol)
	if err != nil {
		return Result{}, err
	}

	// The sender has an address of each family; the one of the destination's family is used.
	from.addr = from.like(to.addr)
	out := Result{From: describe(from), To: describe(to.place)}
	if to.port != 0 {
		out.To += fmt.Sprintf(", port %d/%s", to.port, to.protocol)
	}
	if to.service != nil {
		out.To += ", service " + to.service.Name
	}

	if to.service != nil && to.service.Headless {
		out.Ways = f.headless(from, to)
		return out, nil
	}
	// The first part of the way is the same for all backends.
	first := newWalk(f, from)
	first.protocol, first.number = to.protocol, to.port
	if !first.start(to.place) {
		out.Ways = []Way{first.way()}
		return out, nil
	}
	if to.service == nil {
		first.unserved(to)
		first.finish(to.addr)
		out.Ways = []Way{first.way()}
		return out, nil
	}

	backends := first.serve(to)
	if len(backends) == 0 {
		out.Ways = []Way{first.way()}
	}
	// From here each backend has a way of its own, with copies of what was found so far.
	for _, b := range backends {
		w := *first
		w.hops = slices.Clone(first.hops)
		w.via = slices.Clone(first.via)
		w.backend, w.number = b, b.Port()
		w.finish(b.Addr())
		out.Ways = append(out.Ways, w.way())
	}
	return out, nil
}

// describe names an end with its address and where it is.
func describe(p place) string {
	switch {
	case p.pod != nil:
		return fmt.Sprintf("pod %s (%s on %s)", p.pod.Name, addrOr(p.addr, "no address"), p.pod.Node)
	case p.node != "" && p.node != p.text:
		return fmt.Sprintf("%s (%s)", p.text, p.node)
	case p.node != "":
		return fmt.Sprintf("node %s (%s)", p.node, addrOr(p.addr, "no address"))
	}
	return p.text
}

// addrOr returns an address as text, or the other text if there is none.
func addrOr(a netip.Addr, otherwise string) string {
	if a.IsValid() {
		return a.String()
	}
	return otherwise
}

// walk is the state of one packet while it is followed.
type walk struct {
	facts   *Facts
	from    place
	at      string // the machine that it is on
	backend netip.AddrPort
	served  string // the machine whose service proxy chose the backend
	bare    bool   // it left the client's address as it is, though the client is on another machine
	hops    []Hop
	answer  []Hop
	via     []string // see Way.Via
	lost    bool     // a hop ended the walk, because it is wrong or unknown

	protocol string
	number   uint16 // the port at the destination; 0: any
	isAnswer bool

	ovn inOVN // what OVN does with it
}

// newWalk begins a walk.
func newWalk(f *Facts, from place) *walk {
	w := &walk{facts: f, from: from}
	w.ovn.walk = w
	return w
}

// way is what was found so far. Via is never null in JSON.
func (w *walk) way() Way {
	return Way{Backend: w.backend, Hops: w.hops, Answer: w.answer, Via: append([]string{}, w.via...)}
}

// hop adds a step and returns it, so that what is wrong can be added.
func (w *walk) hop(at, what, decides string, args ...any) *Hop {
	w.hops = append(w.hops, Hop{At: at, What: what, Decides: fmt.Sprintf(decides, args...)})
	return &w.hops[len(w.hops)-1]
}

// wrong adds a hop at which the packet is lost.
func (w *walk) wrong(at, what, decides string, wrong Wrong) bool {
	w.hop(at, what, "%s", decides).Wrong = &wrong
	w.lost = true
	return false
}

// unknown adds a hop that cannot be judged, and ends the way.
func (w *walk) unknown(at, what, why string) bool {
	w.hop(at, what, "-").Unknown = why
	w.lost = true
	return false
}

// machine returns the facts of where the packet is. It ends the way if there are none.
func (w *walk) machine() *Node {
	n := w.facts.node(w.at)
	if n == nil {
		w.unknown(w.at, "facts", "machine "+w.at+
			" did not report: run `porthole facts` on it and give the file with --facts")
	}
	return n
}

// start puts the packet on the machine that sends it. It returns false if that fails.
func (w *walk) start(to place) bool {
	w.at = w.from.node
	if w.from.pod != nil {
		return w.leavePod(w.from, to)
	}
	if w.at != "" {
		w.hop(w.at, "host", "sends from %s", w.from.addr)
		return true
	}

	// From the outside: through a router that reported, else straight to the machine with the address.
	for i := range w.facts.Nodes {
		n := &w.facts.Nodes[i]
		if w.facts.clusterNode(n.Name) == nil && n.Name != to.node {
			w.at = n.Name
			w.hop(w.at, "outside", "a packet from %s comes in", w.from.addr)
			return true
		}
	}
	if to.node == "" {
		return w.unknown(w.from.text, "outside", "it is not known how packets from "+w.from.text+" come to the cluster")
	}
	w.at = to.node
	w.hop(w.at, "outside", "a packet from %s comes in", w.from.addr)
	return true
}

// leavePod checks the pod's port.
func (w *walk) leavePod(p place, to place) bool {
	if !p.addr.IsValid() {
		return w.wrong(p.pod.Name, "address", "the pod is "+p.pod.Phase, w.facts.noAddress(p.pod))
	}
	n := w.machine()
	if n == nil {
		return false
	}
	if n.ovn() {
		return w.ovn.leaveLogical(n, p)
	}
	if n.System == "windows" {
		e := w.windowsPort(n, p)
		return e != nil && w.policies(n, e, to)
	}
	return w.linuxPort(n, p)
}

// noAddress says why a pod has no address.
func (f *Facts) noAddress(p *Pod) Wrong {
	wrong := Wrong{Found: "pod " + p.Name + " has no address", Should: "an address of node " + p.Node + "'s pod range",
		Who: "the container runtime on " + p.Node + ", through its CNI plugin"}
	if p.Waiting != "" {
		wrong.Found += " (" + p.Waiting + ")"
	}
	// If configurations were read and there are none, that is the reason.
	n := f.node(p.Node)
	if n == nil || n.Unread[UnreadConfs] != "" || len(n.Confs) > 0 {
		return wrong
	}
	wrong.Found += ", and node " + p.Node + " has no CNI configuration"
	wrong.Should = "a CNI configuration 10-porthole.conflist or 10-porthole.conf in the folder that the runtime reads"
	wrong.Who = "porthole routes on " + p.Node + " (--cni-conf-dir), once the pod network is made"
	return wrong
}

// windowsPort checks the endpoint of a pod, and returns nil if it cannot carry packets.
func (w *walk) windowsPort(n *Node, p place) *hns.Endpoint {
	if n.HNS == nil {
		w.unknown(n.Name, "endpoint", "HNS of "+n.Name+" could not be read: "+n.Unread[UnreadHNS])
		return nil
	}
	e := n.HNS.endpoint(p.addr)
	if e == nil {
		w.wrong(n.Name, "endpoint", "HNS has no endpoint with address "+p.addr.String(), Wrong{
			Found:  "no HNS endpoint has the address " + p.addr.String() + podText(p),
			Should: "an endpoint with that address in network porthole, attached to the pod",
			Who: "the CNI plugin on " + n.Name +
				" when the pod was started (ADD); delete the pod to have it made anew"})
		return nil
	}
	if e.Namespace == "" {
		w.wrong(n.Name, "endpoint", "HNS endpoint "+e.Name, Wrong{
			Found:  "HNS endpoint " + e.Name + " is in no namespace",
			Should: "the endpoint in the namespace of pod " + p.text,
			Who:    "the CNI plugin on " + n.Name + " (ADD)"})
		return nil
	}

	// The network of the endpoint is shown even if HNS does not list it.
	kind, name := "network unknown", ""
	for _, network := range n.HNS.Networks {
		if network.ID == e.Network {
			kind, name = network.Type, network.Name
		}
	}
	w.hop(n.Name, "endpoint", "HNS endpoint %s %s of network %s (%s)", e.Name, p.addr, name, kind)
	return e
}

// podText is empty for an address that is no pod's.
func podText(p place) string {
	if p.pod == nil {
		return ""
	}
	return " of pod " + p.pod.Name
}

// policies checks what a sending endpoint needs for a destination.
func (w *walk) policies(n *Node, e *hns.Endpoint, to place) bool {
	name := "endpoint " + e.Name
	maker := "the CNI plugin on " + n.Name +
		", from the policies of the CNI configuration that porthole routes writes; delete the pod to have them made anew"

	// An address is inside if it belongs to a pod, a node or a service of the cluster.
	inside := to.pod != nil || w.facts.clusterNode(to.node) != nil || w.facts.rangeOf(to.addr) != nil ||
		w.facts.isService(to.addr)
	nat, exceptions := outbound(e)
	excepted := slices.ContainsFunc(exceptions, func(x netip.Prefix) bool { return x.Contains(to.addr) })
	switch {
	// Endpoints need a route policy for their own host, except in an overlay.
	case w.facts.overlay(n) == nil && w.facts.node(to.node) == n && to.pod == nil && to.addr.IsValid() &&
		!routed(e, to.addr):
		return w.wrong(n.Name, "policy", name,
			Wrong{Found: name + " has no route policy (SDNRoute) for " + to.addr.String(),
				Should: "SDNRoute with DestinationPrefix " + netip.PrefixFrom(to.addr, to.addr.BitLen()).String() +
					", so that the host's own stack takes the packets", Who: maker})
	case !inside && !nat:
		return w.wrong(n.Name, "policy", name,
			Wrong{Found: name + " has no policy OutBoundNAT, and " + to.addr.String() + " is outside of the cluster",
				Should: "OutBoundNAT with the cluster's ranges as exceptions", Who: maker})
	case inside && to.pod != nil && to.node != n.Name && nat && !excepted:
		return w.wrong(n.Name, "policy", name,
			Wrong{Found: "policy OutBoundNAT of " + name + " has no exception for " + to.addr.String() +
				": packets leave with the node's address",
				Should: "the range of all pods among the exceptions", Who: maker})
	case !inside && nat && !excepted:
		w.hop(n.Name, "policy", "OutBoundNAT of %s: leaves with the node's address", name)
	}
	return true
}

// isService reports whether an address is one of a service, or inside a range of service addresses.
func (f *Facts) isService(addr netip.Addr) bool {
	return slices.ContainsFunc(f.Cluster.ServiceRanges, func(r netip.Prefix) bool { return r.Contains(addr) }) ||
		slices.ContainsFunc(f.Cluster.Services, func(s Service) bool { return slices.Contains(s.Addresses, addr) })
}

// linuxPort checks that the host delivers to the pod on a link of its own.
func (w *walk) linuxPort(n *Node, p place) bool {
	r, ok := n.route(p.addr)
	// A default route, or one over a router, would be the node's way out and not a link to the pod.
	if !ok || r.NextHop.IsValid() || r.Destination.Bits() == 0 {
		found := "node " + n.Name + " has no route of its own for the pod's address " + p.addr.String()
		if ok {
			found += ", it goes by " + r.String()
		}
		return w.wrong(n.Name, "bridge", "no link to the pod",
			Wrong{Found: found, Should: "the pod range on the bridge of the pods",
				Who: "the CNI plugin bridge on " + n.Name + ", when the first pod is started"})
	}
	w.hop(n.Name, "bridge", "%s", r)
	if nb := n.neighbour(p.addr, r.Interface); nb != nil && nb.State == NeighbourFailed {
		return w.wrong(n.Name, "neighbour", p.addr.String()+" on "+r.Interface,
			Wrong{Found: "nothing answers for " + p.addr.String() + " on " + r.Interface,
				Should: "pod " + p.text + " with that address", Who: "the container runtime on " + n.Name})
	}
	return true
}

// String returns the route as `ip route` would.
func (r Route) String() string {
	to := r.Destination.String()
	if r.Destination.Bits() == 0 {
		to = "default"
	}
	text := "route " + to
	if r.NextHop.IsValid() {
		text += " via " + r.NextHop.String()
	}
	text += " dev " + r.Interface
	if r.Metric != 0 {
		text += fmt.Sprintf(" metric %d", r.Metric)
	}
	return strings.TrimSpace(text)
}
