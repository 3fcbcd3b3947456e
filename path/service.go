package path

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/hns"
)

// serve follows the packet through the service proxy of the machine that it is on, and returns the backends that it
// may go to. It returns none if the packet is lost.
func (w *walk) serve(to target) []netip.AddrPort {
	if w.facts.clusterNode(w.at) == nil || to.node != "" && to.node != w.at {
		// A router serves nothing, and a node port is served by the node that has the address.
		if !w.carry(to.addr) {
			return nil
		}
	}
	n := w.machine()
	if n == nil {
		return nil
	}

	if n.ovn() {
		return w.ovn.balance(n, to)
	}
	s := to.service
	inside := w.inside(n)
	wanted := s.backendsFor(w.facts.clusterNode(n.Name), to, inside)
	label := fmt.Sprintf("service %s %s", s.Name, frontend(to))
	rule, text, unread := n.serving(to, inside)
	switch {
	case unread != "":
		w.unknown(n.Name, "service", "the service rules of "+n.Name+" could not be read: "+unread)
		return nil
	case len(wanted) == 0:
		w.noBackend(n, label, s)
		return nil
	case text == "":
		w.wrong(n.Name, "service", label, Wrong{Found: n.proxy() + " has no rule for " + frontend(to),
			Should: "one with the backends " + join(wanted), Who: n.maker()})
		return nil
	}

	w.served = n.Name
	w.bare = n.System != "windows" && s.External && s.Local && inside && w.from.node != n.Name
	w.judgeBackends(n, text, rule, wanted, n.maker())
	return rule
}

func (w *walk) noBackend(n *Node, label string, s *Service) {
	w.wrong(n.Name, "service", label, Wrong{Found: "service " + s.Name + " has no ready backend" + localText(s, n.Name),
		Should: "a ready pod behind it", Who: "the pods that its selector matches (`kubectl get endpointslices`)"})
}

// judgeBackends adds the hop of a load balancer, and compares its backends with those that it should have.
func (w *walk) judgeBackends(n *Node, text string, rule, wanted []netip.AddrPort, who string) {
	h := w.hop(n.Name, "service", "%s -> %s", text, join(rule))
	if missing, extra := difference(wanted, rule); len(missing)+len(extra) > 0 {
		var found []string
		if len(missing) > 0 {
			found = append(found, "lacks "+join(missing))
		}
		if len(extra) > 0 {
			found = append(found, "has "+join(extra)+" too, which is not ready or not for these clients")
		}
		h.Wrong = &Wrong{Found: text + " " + strings.Join(found, " and "), Should: "the backends " + join(wanted),
			Who: who}
		w.lost = true
	}
}

// bypassed names what becomes of an answer that does not pass the machine which chose the backend, and is left to
// itself: kube-proxy on Linux sends pods, of whichever node, to the backends of all nodes although the policy is
// Local, and keeps their addresses.
func (w *walk) bypassed() bool {
	if !w.bare || w.at == w.served {
		return false
	}
	w.wrong(w.at, "answer", "goes from "+w.backend.String()+" straight to "+w.from.addr.String(), Wrong{
		Found: fmt.Sprintf(
			"%s knows the packet as one to another address: it has asked %s, whose kube-proxy would have to translate the answer", w.from.text, w.served),
		Should: "the cluster IP of the service, or a client that is not a pod of another node",
		Who:    "the client: with external traffic policy Local kube-proxy keeps the address of pods also where it sends them to other nodes"})
	return true
}

// unserved ends the way of a packet to an address of services at which none is.
func (w *walk) unserved(to target) {
	if !w.facts.isService(to.addr) {
		return
	}
	var ports []string
	name := ""
	for _, s := range w.facts.Cluster.Services {
		if slices.Contains(s.Addresses, to.addr) {
			name = s.Name
			ports = append(ports, fmt.Sprintf("%d/%s", s.Port, s.Protocol))
		}
	}
	wrong := Wrong{Found: "no service has the address " + to.addr.String(),
		Should: "the address of a service (`kubectl get services -A`)",
		Who:    "whoever gave the address: the service may be gone"}
	if name != "" {
		wrong = Wrong{Found: fmt.Sprintf("service %s has no port %d/%s", name, to.port, to.protocol),
			Should: "one of its ports, " + strings.Join(ports, ", "), Who: "the client, or the service's author"}
	}
	w.wrong(w.at, "service", frontend(to), wrong)
}

// headless returns the ways to a service without an address: DNS answers with the addresses of its pods, and the
// client chooses one. Nobody translates the port.
func (f *Facts) headless(from place, to target) (ways []Way) {
	s := to.service
	label := "headless service " + s.Name
	ready := slices.DeleteFunc(slices.Clone(s.Backends), func(b Backend) bool { return b.Terminating })
	if len(ready) == 0 {
		w := newWalk(f, from)
		w.at = from.node
		w.wrong(from.text, "dns", label,
			Wrong{Found: "service " + s.Name + " has no ready backend: DNS has no address for it",
				Should: "a ready pod behind it",
				Who:    "the pods that its selector matches (`kubectl get endpointslices`)"})
		return []Way{w.way()}
	}

	for _, b := range ready {
		at := f.place(b.Address.String(), b.Address.Addr())
		from.addr = from.like(at.addr)
		w := newWalk(f, from)
		w.backend = b.Address
		w.hop(from.text, "dns", "%s: DNS answers with %s, among %d", label, at.addr, len(ready))
		if to.port != 0 && to.port != b.Address.Port() && b.Address.Port() != 0 {
			w.hops[0].Wrong = &Wrong{Found: fmt.Sprintf("%s does not translate port %d, and its pods listen at %d",
				label, to.port, b.Address.Port()),
				Should: fmt.Sprintf("port %d, or a service with a cluster IP", b.Address.Port()), Who: "the client"}
		} else if w.start(at) {
			w.finish(at.addr)
		}
		ways = append(ways, w.way())
	}
	return ways
}

func frontend(to target) string {
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(to.addr, to.port), to.protocol)
}

func localText(s *Service, node string) string {
	if s.Local && len(s.Backends) > 0 {
		return " on node " + node + ", and its traffic policy is Local"
	}
	return ""
}

func (n *Node) proxy() string {
	if n.System == "windows" {
		return "HNS of node " + n.Name
	}
	return "kube-proxy of node " + n.Name
}

func (n *Node) maker() string {
	if n.System == "windows" {
		return "porthole kube-proxy on " + n.Name + " (`porthole hns diff` tells what else is missing)"
	}
	return "kube-proxy on " + n.Name
}

// inside reports whether the service proxy of a machine takes the packet for one from inside the cluster: it comes
// from a pod, or from the machine itself. Packets of other nodes come from outside, as far as kube-proxy can see.
func (w *walk) inside(n *Node) bool {
	return w.from.pod != nil && !w.from.pod.HostNetwork || w.from.node == n.Name || w.facts.rangeOf(w.from.addr) != nil
}

// backendsFor returns the backends that a node's service proxy should have for a frontend and clients from inside or
// outside of the cluster, sorted: those of the address's family. The rules are kube-proxy's (kubernetes,
// pkg/proxy/topology.go). With external traffic policy Local, clients inside of the cluster get the backends of all
// nodes; but a load balancer of HNS has one list for all clients, which is that of the node's own backends if there
// are any, and always for node ports.
func (s *Service) backendsFor(node *ClusterNode, to target, inside bool) []netip.AddrPort {
	var all []Backend
	for _, b := range s.Backends {
		if b.Address.Addr().Is4() == to.addr.Is4() {
			all = append(all, b)
		}
	}
	here := chosen(all, func(b Backend) bool { return node != nil && b.Node == node.Name }, true)
	everywhere := chosen(all, near(all, node), false)
	windows := node != nil && node.System == "windows"

	switch {
	case !s.Local:
		return everywhere
	case s.External && windows && len(here) == 0 && to.node == "":
		return everywhere
	case s.External && !windows && inside:
		return everywhere
	}
	return here
}

// chosen returns the addresses of the ready backends that wanted admits. Without any it returns those that serve while
// they terminate: all, or with strict those that wanted admits.
func chosen(all []Backend, wanted func(Backend) bool, strict bool) []netip.AddrPort {
	var ready, terminating []netip.AddrPort
	for _, b := range all {
		switch {
		case b.Terminating && (!strict || wanted(b)):
			terminating = append(terminating, b.Address)
		case !b.Terminating && wanted(b):
			ready = append(ready, b.Address)
		}
	}
	if len(ready) == 0 {
		return sortedBackends(terminating)
	}
	return sortedBackends(ready)
}

// near returns which backends the topology hints allow for a node. They count if every ready backend has them and one
// names the node, or else its zone.
func near(all []Backend, node *ClusterNode) func(Backend) bool {
	byNode := func(b Backend) []string { return b.ForNodes }
	byZone := func(b Backend) []string { return b.ForZones }
	hinted := func(place string, hints func(Backend) []string) bool {
		found := false
		for _, b := range all {
			if b.Terminating {
				continue
			}
			if len(hints(b)) == 0 {
				return false
			}
			found = found || slices.Contains(hints(b), place)
		}
		return found
	}

	switch {
	case node != nil && hinted(node.Name, byNode):
		return func(b Backend) bool { return slices.Contains(b.ForNodes, node.Name) }
	case node != nil && hinted(node.Zone, byZone):
		return func(b Backend) bool { return slices.Contains(b.ForZones, node.Zone) }
	}
	return func(Backend) bool { return true }
}

// serving returns the backends and the name of the rule for a frontend and clients from inside or outside of the
// cluster. The name is empty if there is no rule; unread says why the rules are not known.
func (n *Node) serving(to target, inside bool) (backends []netip.AddrPort, rule, unread string) {
	if n.System == "windows" {
		if n.HNS == nil {
			return nil, "", orNone(n.Unread[UnreadHNS])
		}
		backends, rule = n.HNS.serving(to)
		return backends, rule, ""
	}
	unread = n.Unread[UnreadServices]
	if unread == "" && to.addr.Is6() {
		unread = n.Unread[UnreadServices6]
	}
	if unread != "" {
		return nil, "", unread
	}

	for _, r := range n.Services {
		if r.Port == to.port && r.Protocol == to.protocol &&
			(r.Address == to.addr || r.servesNode(to.addr) && n.has(to.addr)) {
			if r.Split && !inside {
				return sortedBackends(r.Others), r.Text, ""
			}
			return sortedBackends(r.Backends), r.Text, ""
		}
	}
	return nil, "", ""
}

func orNone(reason string) string {
	if reason == "" {
		return "no reason was reported"
	}
	return reason
}

// servesNode reports whether a rule without an address, that of a node port, is for addresses of a family. Each family
// has a rule of its own, which only its backends tell apart.
func (r *Rule) servesNode(family netip.Addr) bool {
	return !r.Address.IsValid() && (len(r.Backends) == 0 || r.Backends[0].Addr().Is4() == family.Is4())
}

// serving looks for the load balancer of a frontend. One without addresses serves a node port, in one family.
func (h *HNS) serving(to target) (backends []netip.AddrPort, rule string) {
	for _, lb := range h.Balancers {
		if !slices.Contains(lb.VIPs, to.addr) && !(len(lb.VIPs) == 0 && to.node != "" && lb.IPv6 == to.addr.Is6()) {
			continue
		}
		i := slices.IndexFunc(lb.Ports,
			func(p hns.Port) bool { return p.External == to.port && p.Protocol.String() == to.protocol })
		if i < 0 {
			continue
		}
		for _, id := range lb.Endpoints {
			if e := h.byID(id); e != nil && len(e.Addrs) > 0 {
				backends = append(backends,
					netip.AddrPortFrom(of(to.addr, e.Addrs[0], e.Addrs[1:]), lb.Ports[i].Internal))
			}
		}
		return sortedBackends(backends), fmt.Sprintf("load balancer %s (%s)", lb.ID, lb.Ports[i])
	}
	return nil, ""
}

func sortedBackends(list []netip.AddrPort) []netip.AddrPort {
	list = slices.Clone(list)
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// difference compares sorted lists.
func difference(wanted, found []netip.AddrPort) (missing, extra []netip.AddrPort) {
	for _, b := range wanted {
		if !slices.Contains(found, b) {
			missing = append(missing, b)
		}
	}
	for _, b := range found {
		if !slices.Contains(wanted, b) {
			extra = append(extra, b)
		}
	}
	return missing, extra
}

func join(list []netip.AddrPort) string {
	texts := make([]string, len(list))
	for i, b := range list {
		texts[i] = b.String()
	}
	return strings.Join(texts, ", ")
}
