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

// Annotations of a Node.
const (
	AnnotationAS       = "porthole.dev/bgp-as-number" // AS of the node
	AnnotationRouterID = "porthole.dev/bgp-router-id" // an IPv4 address
	// more peers of the node: a list as in the configuration, YAML or JSON
	AnnotationPeers = "porthole.dev/bgp-peers"
	// AnnotationWithdraw decides whether the node announces its range, drained or not: "true" for nothing, "false" for
	// always.
	AnnotationWithdraw = "porthole.dev/bgp-withdraw"
)

// Session is what all peers of a node have in common. To change it all sessions are closed.
type Session struct {
	AS         uint32
	RouterID   netip.Addr
	ClusterID  netip.Addr // of a route reflector
	ListenPort int        // -1: sessions are only opened, not accepted
	Reflector  bool       // this node passes on what it learns
}

func (s Session) String() string {
	text := fmt.Sprintf("AS %d, router id %s, port %d", s.AS, s.RouterID, s.ListenPort)
	if s.ListenPort < 0 {
		text = fmt.Sprintf("AS %d, router id %s, outgoing sessions only", s.AS, s.RouterID)
	}
	if s.Reflector {
		text += ", reflects routes"
	}
	return text
}

// Peer is one neighbour with everything that its session needs.
type Peer struct {
	Addr       netip.Addr
	AS         uint32
	Port       int
	Password   string
	Passive    bool
	Client     bool // of us as a route reflector
	Multihop   int
	AllowOwnAS int
	Hold       time.Duration
	Keepalive  time.Duration
	Retry      time.Duration
	Restart    time.Duration // of graceful restart; 0: none
	BFD        Detection
}

// Detection is BFD with one peer; the zero value is none.
type Detection struct {
	Transmit, Receive time.Duration
	Multiplier        int
}

func (p Peer) String() string {
	words := []string{p.Addr.String(), fmt.Sprintf("AS %d", p.AS)}
	if p.Port != defaultPort {
		words = append(words, fmt.Sprintf("port %d", p.Port))
	}
	if p.Password != "" {
		words = append(words, "password")
	}
	if p.Passive {
		words = append(words, "passive")
	}
	if p.Client {
		words = append(words, "client")
	}
	words = append(words, fmt.Sprintf("hold %s", p.Hold))
	if p.Restart > 0 {
		words = append(words, fmt.Sprintf("restart %s", p.Restart))
	}
	if p.BFD != (Detection{}) {
		words = append(words, fmt.Sprintf("bfd %s x %d", p.BFD.Receive, p.BFD.Multiplier))
	}
	return strings.Join(words, ", ")
}

// settings are what the configuration and the annotations of the nodes make of one node.
type settings struct {
	Session Session
	Peers   []Peer // by address
	Accept  []netip.Prefix
	Learn   bool
	// Routers are the addresses of peers that the operator named, which pass on what others announce. A node that says
	// to have one is not taken for it.
	Routers  []netip.Addr
	Withdraw bool     // announce nothing
	Stay     bool     // announce the range although the node is drained
	Problems []string // annotations that were left out, with the reason
}

// settle merges the configuration with the annotations of the nodes. An annotation that is wrong is left out and
// reported, so that the sessions which the node has stay as they are.
func (c Config) settle(self table.Node, nodes []table.Node) settings {
	s := settings{Learn: !c.AnnounceOnly}
	s.Session = Session{AS: uint32(c.asOf(self, &s)), RouterID: self.Addr,
		ListenPort: cmp.Or(c.ListenPort, defaultPort)}
	// The annotation wins over the configuration.
	for _, id := range []string{c.RouterID, self.Annotations[AnnotationRouterID]} {
		switch {
		case isIPv4(id):
			s.Session.RouterID = netip.MustParseAddr(id)
		case id != "":
			s.Problems = append(s.Problems,
				fmt.Sprintf("annotation %s of node %s: %q is not an IPv4 address; %s is used", AnnotationRouterID,
					self.Name, id, s.Session.RouterID))
		}
	}
	for _, text := range c.AcceptPrefixes {
		s.Accept = append(s.Accept, netip.MustParsePrefix(text).Masked())
	}
	s.withdraw(self)

	for _, p := range slices.Concat(c.Peers, s.annotated(self, c)) {
		if addr := netip.MustParseAddr(p.PeerIP); addr != self.Addr && (p.Node == "" || p.Node == self.Name) {
			s.add(c.peer(p, addr))
			s.Routers = append(s.Routers, addr)
		}
	}
	if c.FullMesh {
		for _, n := range nodes {
			if n.Name != self.Name && n.Addr.Is4() {
				s.add(c.peer(PeerConfig{ASNumber: c.asOf(n, &s), Password: c.NodeMeshPassword}, n.Addr))
			}
		}
	}
	slices.SortFunc(s.Peers, func(a, b Peer) int { return a.Addr.Compare(b.Addr) })

	// A node with clients is a route reflector, which needs an id of its cluster.
	s.Session.Reflector = slices.ContainsFunc(s.Peers, func(p Peer) bool { return p.Client })
	if s.Session.Reflector {
		s.Session.ClusterID = s.Session.RouterID
		if isIPv4(c.RouteReflectorClusterID) {
			s.Session.ClusterID = netip.MustParseAddr(c.RouteReflectorClusterID)
		}
	}
	return s
}

// add adds a peer, unless one of that address is there: what the operator wrote wins over the mesh.
func (s *settings) add(p Peer) {
	if !slices.ContainsFunc(s.Peers, func(o Peer) bool { return o.Addr == p.Addr }) {
		s.Peers = append(s.Peers, p)
	}
}

// asOf returns the AS of a node: its annotation, or that of the configuration.
func (c Config) asOf(n table.Node, s *settings) ASNumber {
	as := cmp.Or(c.ASNumber, DefaultASNumber)
	text := n.Annotations[AnnotationAS]
	if text == "" {
		return as
	}
	annotated, err := parseAS(text)
	if err != nil {
		s.Problems = append(s.Problems,
			fmt.Sprintf("annotation %s of node %s: %v; AS %d is used", AnnotationAS, n.Name, err, as))
		return as
	}
	return annotated
}

// withdraw reads the annotation: "true" withdraws the node's range, "false" keeps it announced;
// anything else is reported and left out.
func (s *settings) withdraw(self table.Node) {
	switch text := self.Annotations[AnnotationWithdraw]; text {
	case "":
	case "false":
		s.Stay = true
	case "true":
		s.Withdraw = true
	default:
		s.Problems = append(s.Problems,
			fmt.Sprintf("annotation %s of node %s: %q is neither true nor false: it is left out", AnnotationWithdraw,
				self.Name, text))
	}
}

// annotated returns the peers of the node's annotation. One that holds a password is not used.
func (s *settings) annotated(self table.Node, c Config) []PeerConfig {
	text := self.Annotations[AnnotationPeers]
	if text == "" {
		return nil
	}
	var peers []PeerConfig
	d, err := decode([]byte(text), "peers", &peers)
	if err == nil {
		err = d.at(validatePeers("peers", peers))
	}

	for i, p := range peers {
		switch {
		case err != nil:
		case p.Password != "":
			err = fmt.Errorf(
				"peers[%d] has a password, which everybody can read here who can read nodes: put it into passwords of --bgp-config, name it with passwordRef, and choose another one", i)
		case p.PasswordRef != "" && c.password(p.PasswordRef) == "":
			err = fmt.Errorf("peers[%d].passwordRef %q is none of passwords in --bgp-config", i, p.PasswordRef)
		}
	}
	if err != nil {
		s.Problems = append(s.Problems,
			fmt.Sprintf("annotation %s of node %s: %v; none of its peers is used", AnnotationPeers, self.Name, err))
		return nil
	}
	return peers
}

// peer adds what peers have in common.
func (c Config) peer(p PeerConfig, addr netip.Addr) Peer {
	hold := c.HoldTime.or(defaultHold)
	if p.PasswordRef != "" {
		p.Password = c.password(p.PasswordRef)
	}
	peer := Peer{
		Addr: addr, AS: uint32(p.ASNumber), Port: cmp.Or(p.Port, defaultPort), Password: p.Password, Passive: p.Passive,
		Client: p.RouteReflectorClient, Multihop: p.EBGPMultihop, AllowOwnAS: p.AllowOwnAS,
		Hold: hold, Keepalive: c.Keepalive.or((hold / 3).Truncate(time.Second)), Retry: c.ConnectRetry.or(defaultRetry),
	}
	if c.GracefulRestart.Enabled == nil || *c.GracefulRestart.Enabled {
		peer.Restart = c.GracefulRestart.RestartTime.or(defaultRestart)
	}
	if p.BFD == nil && c.BFD.Enabled || p.BFD != nil && *p.BFD {
		peer.BFD = Detection{
			Transmit:   c.BFD.TransmitInterval.or(defaultBFDInterval),
			Receive:    c.BFD.ReceiveInterval.or(defaultBFDInterval),
			Multiplier: cmp.Or(c.BFD.Multiplier, defaultBFDMultplier),
		}
	}
	return peer
}
