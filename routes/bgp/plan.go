package bgp

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/routes/table"
)

// Seen is what this mode observes: the host's routes and the state of the speaker.
type Seen struct {
	Routes []table.Route  // those of our mark, and those inside the cluster's pod range
	OnLink []netip.Prefix // what the interface of the node's address reaches without a router
	// Segments is what all interfaces reach without a router, those of pods too.
	Segments []netip.Prefix
	Pods     Pods
	Speaker
}

// Pods are the pods of the pod network of this node that go when it is drained: neither those of a DaemonSet nor
// static ones, which stay.
type Pods struct {
	// Known: Left holds, now or, if there is a Why, when an earlier agent of this node knew them.
	Known bool
	Left  int
	Why   string // they are not known now, if that is worth a word
}

// Speaker is the state of the BGP speaker.
type Speaker struct {
	Running    bool
	Session    Session
	NoListener string // why sessions of others are not accepted although they should be; empty: nothing is wrong
	PortFree   bool   // NoListener is over: the port could be listened on now
	NoPassword string // why this host cannot protect sessions by passwords; empty: it can
	NoDefault  string // why this host cannot learn a default route; empty: it can
	Announced  []netip.Prefix
	Neighbours []Neighbour
	Paths      []Path // in the speaker's order of preference

	// Heard is true once a session has been established since the speaker runs. Told is true once each peer has told
	// all its routes, or its time to come back after a restart is over. Until both are, routes that the host has are
	// kept: unknown is not absent.
	Heard, Told bool
}

// Neighbour is a peer that the speaker has.
type Neighbour struct {
	Peer
	Established bool
	Late        bool // it has had no session for so long that it is worth a word
	// HalfOpen is how long its session has been half open; 0: it is not. Renewals are those since it had a session.
	HalfOpen time.Duration
	Renewals int
	Why      string    // what ended the session, or why there is none
	Since    time.Time // the session was established or lost, or the peer was added
}

// Path is a route to a destination as one peer announced it.
type Path struct {
	Dst     netip.Prefix
	NextHop netip.Addr
	Peer    netip.Addr
	// Origin is the router id of who announced it first, if a route reflector says so.
	Origin netip.Addr
	Rank   Rank
}

// Rank is what best paths are compared by. Paths of the same rank are used together.
type Rank struct {
	LocalPref, ASPathLen, Origin, MED uint32
	External                          bool
}

// Verb of a Change.
type Verb string

// Verbs, in the order in which a plan has them.
const (
	Start      Verb = "start"    // the speaker; if it runs, with the new session
	Announce   Verb = "announce" // a range
	SetPeer    Verb = "set peer" // add it, or close its session and add it as it should be
	Route      Verb = "route"    // make the host's route go through exactly these next hops
	Unroute    Verb = "unroute"
	Withdraw   Verb = "withdraw"
	DeletePeer Verb = "delete peer"
)

// Change is one change of the speaker or of the host's route table.
type Change struct {
	Verb    Verb
	Session Session      // of Start
	Peer    Peer         // of SetPeer; DeletePeer uses its address
	Dst     netip.Prefix // of all others
	Hops    []netip.Addr // of Route; of Announce the one next hop
	// Restarting, of SetPeer: this host kept its routes while no speaker ran, and the peer should too (RFC 4724).
	Restarting bool
	Why        string
}

func (c Change) String() string {
	var what string
	switch c.Verb {
	case Start:
		what = c.Session.String()
	case SetPeer:
		what = c.Peer.String()
		if c.Restarting {
			what += ", restarting"
		}
	case DeletePeer:
		what = c.Peer.Addr.String()
	case Route, Announce:
		what = fmt.Sprintf("%s via %s", c.Dst, joinAddrs(c.Hops))
	default:
		what = c.Dst.String()
	}
	return fmt.Sprintf("%s %s: %s", c.Verb, what, c.Why)
}

// Makes implements table.Op.
func (c Change) Makes() netip.Prefix {
	if c.Verb == Route || c.Verb == Announce {
		return c.Dst
	}
	return netip.Prefix{}
}

// planner has what the parts of one plan share.
type planner struct {
	settings
	self    table.Node
	cluster netip.Prefix
	seen    Seen
	claims  table.Claims
	peers   []table.Wanted // ranges of other nodes
	owners  owners
	untrue  map[netip.Prefix]string // why no path to a range is used that a node says to have
	silent  string                  // why the node's range is not announced

	wanted   []table.Wanted
	ops      []Change
	problems []string
}

// newPlanner returns a planner with the settings of node self. known is false if the node is not in the cluster, and
// then it has none.
func newPlanner(o Options, nodes []table.Node, seen Seen) (p *planner, known bool) {
	p = &planner{self: table.Node{Name: o.Node, Addr: o.Addr}, cluster: o.Cluster.Masked(), seen: seen,
		untrue: map[netip.Prefix]string{}}
	i := slices.IndexFunc(nodes, func(n table.Node) bool { return n.Name == o.Node })
	if i < 0 {
		return p, false
	}
	p.self.PodCIDRs = nodes[i].PodCIDRs
	p.self.Annotations = nodes[i].Annotations
	p.self.Cordoned = nodes[i].Cordoned
	p.settings = o.Config.settle(p.self, nodes)
	p.judge(o, nodes)
	p.problems = append(p.problems, p.settings.Problems...)
	p.noDefault()
	return p, true
}

// judge finds out which ranges of nodes are true.
func (p *planner) judge(o Options, nodes []table.Node) {
	leads := table.Leads(p.seen.Routes)
	p.claims = table.Claims{Self: o.Node, Cluster: o.cluster(), Leads: func(n table.Node, dst netip.Prefix) bool {
		return n.Name == o.Node && slices.Contains(p.seen.Announced, dst) || leads(n, dst)
	}}
	p.peers = table.Peers(nodes, p.claims)
	p.owners = ownersOf(p.self, nodes, p.peers)
	for _, w := range p.peers {
		if w.Untrue {
			p.untrue[w.Dst] = w.Reason
		}
	}
}

// plan plans the sessions, the announced range and the routes of node o.Node.
func plan(o Options, nodes []table.Node, seen Seen) table.Plan[Change] {
	p, known := newPlanner(o, nodes, seen)
	if !known { // the node was deleted: it announces nothing more, and its pods go on as long as there are any
		p.problems = append(p.problems,
			fmt.Sprintf("node %s is not in the cluster: its range is not announced", o.Node))
		p.withdrawBut(netip.Prefix{}, "the node was deleted")
		return table.Plan[Change]{Ops: p.ops, Problems: p.problems}
	}

	p.session()
	own := p.announce(nodes)
	p.meet()
	p.routes()
	p.withdrawBut(own, p.whyWithdrawn())
	p.strangers()

	slices.SortStableFunc(p.wanted, func(a, b table.Wanted) int {
		return cmp.Or(a.Dst.Compare(b.Dst), a.NextHop.Compare(b.NextHop))
	})
	return table.Plan[Change]{Wanted: p.wanted, Ops: p.ops, Problems: p.problems, Peers: p.sessions()}
}

// sessions describes the wanted peers.
func (p *planner) sessions() (list []table.Peer) {
	learnt := map[netip.Addr]int{}
	for _, path := range p.seen.Paths {
		learnt[path.Peer]++
	}
	for _, peer := range p.Peers {
		s := table.Peer{Addr: peer.Addr, AS: peer.AS, Learnt: learnt[peer.Addr]}
		if peer.Password != "" {
			s.Why = p.seen.NoPassword
		}
		if i := slices.IndexFunc(p.seen.Neighbours, func(n Neighbour) bool { return n.Addr == peer.Addr }); i >= 0 {
			s.Up = p.seen.Neighbours[i].Established
			s.Since = p.seen.Neighbours[i].Since
			if !s.Up {
				s.Why = p.seen.Neighbours[i].Why
			}
		}
		list = append(list, s)
	}
	return list
}

// noDefault takes the default route out of what is learnt, on a host that cannot.
func (p *planner) noDefault() {
	if i := slices.IndexFunc(p.Accept, func(a netip.Prefix) bool { return a.Bits() == 0 }); i >= 0 &&
		p.seen.NoDefault != "" {
		p.problems = append(p.problems, "0.0.0.0/0 is not learnt: "+p.seen.NoDefault)
		p.Accept = slices.Delete(p.Accept, i, i+1)
	}
}

// do adds a change to the plan, in the order in which changes are carried out.
func (p *planner) do(c Change) { p.ops = append(p.ops, c) }

// session starts the speaker. One that could not listen runs on without until its port is free. Then it is started
// again, for which all sessions end, only if one is missing.
func (p *planner) session() {
	has := p.seen.Session
	if p.seen.NoListener != "" {
		has.ListenPort = p.Session.ListenPort
	}
	switch {
	case !p.seen.Running:
		p.do(Change{Verb: Start, Session: p.Session, Why: "no speaker runs"})
	case has != p.Session:
		p.do(Change{Verb: Start, Session: p.Session, Why: "was " + p.seen.Session.String()})
	case p.seen.PortFree && p.sessionMissing():
		p.do(Change{Verb: Start, Session: p.Session,
			Why: fmt.Sprintf("port %d is free now, and a peer has no session", p.Session.ListenPort)})
	case p.seen.PortFree:
		p.problems = append(p.problems,
			fmt.Sprintf(
				"port %d was taken when this node began to speak BGP, and is free now: it will be listened on as soon as a "+
					"session is missing, because all end for that", p.Session.ListenPort))
	case p.seen.NoListener != "":
		p.problems = append(p.problems, p.seen.NoListener)
	}
}

// sessionMissing reports whether a peer has had no session for a while.
func (p *planner) sessionMissing() bool {
	return slices.ContainsFunc(p.seen.Neighbours, func(n Neighbour) bool { return n.Late })
}

// fresh reports whether the speaker has no peers and announces nothing when the plan is carried out, because it is
// started.
func (p *planner) fresh() bool { return len(p.ops) > 0 && p.ops[0].Verb == Start }

// announce plans the node's own range, and returns it, or the zero Prefix if there is none to announce.
func (p *planner) announce(nodes []table.Node) netip.Prefix {
	i := slices.IndexFunc(p.self.PodCIDRs, func(c netip.Prefix) bool { return c.Addr().Is4() })
	if i < 0 {
		return netip.Prefix{}
	}
	own := p.self.PodCIDRs[i].Masked()
	if p.silent = p.whySilent(); p.silent != "" {
		p.problems = append(p.problems,
			fmt.Sprintf("range %s of node %s is not announced: %s", own, p.self.Name, p.silent))
		return netip.Prefix{}
	}

	// The state is what users see of the own range; it is Missing until it is announced.
	w := table.Wanted{Node: p.self.Name, Dst: own, NextHop: p.self.Addr, State: table.Missing}
	announced := slices.Contains(p.seen.Announced, own) && !p.fresh()
	switch why := p.claims.Own(nodes); {
	case len(why) > 0:
		w.State = table.Refused
		w.Reason = "it is not announced: " + why[0]
		p.wanted = append(p.wanted, w)
		return netip.Prefix{}
	case len(p.Peers) == 0:
		w.State = table.Waiting
		w.Reason = "there is no peer to announce it to: name one in the configuration or in the annotation " +
			AnnotationPeers + ", or use fullMesh"
	case announced && !p.established():
		w.State, w.Reason = table.Waiting, "no peer has a session"
	case announced:
		w.State = table.Present
	}
	if !announced {
		p.do(Change{Verb: Announce, Dst: own, Hops: []netip.Addr{p.self.Addr}, Why: "not announced"})
	}
	p.wanted = append(p.wanted, w)
	return own
}

// whySilent returns why the node's range must not be announced, or "". A cordoned node has pods that others have to
// reach, until it is drained; while its pods are not known, it may have some.
func (p *planner) whySilent() string {
	switch pods := p.seen.Pods; {
	case p.settings.Withdraw:
		return "annotation " + AnnotationWithdraw + " is true"
	case !p.self.Cordoned || p.settings.Stay:
	case pods.Known && pods.Left == 0:
		if pods.Why != "" {
			p.problems = append(p.problems,
				fmt.Sprintf(
					"node %s is taken for drained, as it was before, and whether it has pods now is not known: %s",
					p.self.Name, pods.Why))
		}
		return "the node is drained (cordoned, and no pods are left but those of DaemonSets): uncordon it, or set annotation " + AnnotationWithdraw + " to false"
	case !pods.Known && pods.Why != "":
		p.problems = append(p.problems,
			fmt.Sprintf(
				"node %s is cordoned, and whether pods are left is not known: %s; its range stays announced (set annotation %s to true to withdraw it)",
				p.self.Name, pods.Why, AnnotationWithdraw))
	}
	return ""
}

func (p *planner) established() bool {
	return slices.ContainsFunc(p.seen.Neighbours, func(n Neighbour) bool { return n.Established })
}

// withdrawBut withdraws what is announced but for the own range. A new speaker announces nothing
// yet.
func (p *planner) withdrawBut(own netip.Prefix, why string) {
	if p.fresh() {
		return
	}
	for _, a := range p.seen.Announced {
		if a != own {
			p.do(Change{Verb: Withdraw, Dst: a, Why: why})
		}
	}
}

// whyWithdrawn says why a range that was announced is not any more.
func (p *planner) whyWithdrawn() string {
	return cmp.Or(p.silent, "not the range of this node")
}

// meet plans the sessions. Peers with a password are left out on a host that cannot protect a session.
func (p *planner) meet() {
	// A node that had routes of ours before tells its peers that it restarts, so that they keep
	// theirs to it.
	restarting := p.fresh() && (!p.seen.Running || p.seen.PortFree) &&
		(!p.Learn || slices.ContainsFunc(p.seen.Routes, func(r table.Route) bool { return r.Ours }))
	for _, peer := range p.Peers {
		if peer.Password != "" && p.seen.NoPassword != "" {
			p.problems = append(p.problems, fmt.Sprintf("peer %s has a password: %s", peer.Addr, p.seen.NoPassword))
			continue
		}
		if peer.Passive && (p.seen.NoListener != "" && !p.fresh() || p.Session.ListenPort < 0) {
			p.problems = append(p.problems,
				fmt.Sprintf("peer %s is passive and this node accepts no sessions: one of both has to connect",
					peer.Addr))
		}

		i := slices.IndexFunc(p.seen.Neighbours, func(n Neighbour) bool { return n.Addr == peer.Addr })
		switch {
		case i < 0 || p.fresh():
			p.do(Change{Verb: SetPeer, Peer: peer, Restarting: restarting, Why: "no such peer"})
			continue
		case p.seen.Neighbours[i].Peer != peer:
			p.do(Change{Verb: SetPeer, Peer: peer, Why: "was " + p.seen.Neighbours[i].Peer.String()})
		case p.seen.Neighbours[i].HalfOpen >= p.halfOpenFor(p.seen.Neighbours[i]):
			p.do(Change{Verb: SetPeer, Peer: peer, Why: "its session stays half open"})
		}
		if n := p.seen.Neighbours[i]; n.Late {
			p.problems = append(p.problems, fmt.Sprintf("peer %s (AS %d) has no session: %s", n.Addr, n.AS, n.Why))
		}
	}
}

// strangers plans the end of sessions that nobody wants any more.
func (p *planner) strangers() {
	if p.fresh() {
		return
	}
	for _, n := range p.seen.Neighbours {
		if !slices.ContainsFunc(p.Peers, func(w Peer) bool { return w.Addr == n.Addr }) {
			p.do(Change{Verb: DeletePeer, Peer: n.Peer, Why: "not in the configuration"})
		}
	}
}

// routes plans the host's routes.
func (p *planner) routes() {
	learnt := map[netip.Prefix]learning{}
	if p.Learn {
		learnt = p.learn()
		p.expect(learnt)
	}
	has := map[netip.Prefix][]table.Route{}
	for _, r := range p.seen.Routes {
		has[r.Dst] = append(has[r.Dst], r)
	}

	for _, dst := range sortedKeys(learnt) {
		p.route(dst, learnt[dst], has[dst])
	}
	if !p.seen.Heard || !p.seen.Told {
		return
	}
	for _, dst := range sortedKeys(has) {
		if _, wanted := learnt[dst]; !wanted &&
			slices.ContainsFunc(has[dst], func(r table.Route) bool { return r.Ours }) {
			p.do(Change{Verb: Unroute, Dst: dst, Why: "no peer announces it"})
		}
	}
}

// route compares one destination with what the host has of it.
func (p *planner) route(dst netip.Prefix, l learning, has []table.Route) {
	var ours, missing []netip.Addr
	for _, r := range has {
		if r.Ours {
			ours = append(ours, r.NextHop)
			continue
		}
		p.refuse(table.Wanted{Node: l.node, Dst: dst, NextHop: l.hops[0]},
			fmt.Sprintf("somebody else's route to %s %s is there: delete it, and ours is made", dst,
				through(r.NextHop)))
		return
	}
	slices.SortFunc(ours, netip.Addr.Compare)

	for _, hop := range l.hops {
		w := table.Wanted{Node: l.node, Dst: dst, NextHop: hop, State: table.Present}
		if !slices.Contains(ours, hop) {
			w.State = table.Missing
			missing = append(missing, hop)
		}
		p.wanted = append(p.wanted, w)
	}
	switch {
	case len(ours) == 0:
		p.do(Change{Verb: Route, Dst: dst, Hops: l.hops, Why: "not there"})
	case slices.Equal(ours, l.hops):
	case len(missing) == 0 && (!p.seen.Heard || !p.seen.Told): // the others may be announced again in a moment
	default:
		p.do(Change{Verb: Route, Dst: dst, Hops: l.hops, Why: "goes to " + joinAddrs(ours)})
	}
}

// through says where a route of somebody else leads; the zero address stands for no next hop.
func through(hop netip.Addr) string {
	if hop.IsValid() {
		return "through " + hop.String()
	}
	return "without a next hop (a segment of this host, or one that drops packets)"
}

// refuse notes a range with the reason why no route is made for it.
func (p *planner) refuse(w table.Wanted, reason string) {
	w.State, w.Reason = table.Refused, reason
	p.wanted = append(p.wanted, w)
}

// expect adds the ranges of nodes to which no path leads.
func (p *planner) expect(learnt map[netip.Prefix]learning) {
	var down []string
	for _, n := range p.seen.Neighbours {
		if !n.Established {
			down = append(down, n.Addr.String())
		}
	}
	why := "no peer announces it"
	if len(down) > 0 {
		slices.Sort(down)
		why += "; no session with " + strings.Join(down, ", ")
	}

	for _, w := range p.peers {
		switch {
		case !w.Dst.Addr().Is4():
		case w.Untrue:
			p.wanted = append(p.wanted, w)
		case !covered(learnt, w.Dst):
			p.wanted = append(p.wanted, table.Wanted{Node: w.Node, Dst: w.Dst, State: table.Waiting, Reason: why})
		}
	}
}

// joinAddrs and sortedKeys give the same text and order for the same content.
func joinAddrs(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return strings.Join(texts, " and ")
}

func sortedKeys[V any](m map[netip.Prefix]V) []netip.Prefix {
	keys := make([]netip.Prefix, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, netip.Prefix.Compare)
	return keys
}
