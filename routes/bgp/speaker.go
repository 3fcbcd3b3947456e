package bgp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
)

const (
	// deferral is how long a node that restarts waits for the routes of all peers before it announces anything (RFC
	// 4724, 4.1). Peers keep its routes meanwhile.
	deferral = 5 * time.Second
	// quiet is how long a peer without graceful restart must have told nothing new before it is thought to have told
	// all its routes. Such a peer does not mark their end. BIRD 2.0.12 begins up to 3 s after the session (its main
	// loop sleeps so long).
	quiet = 5 * time.Second
	// late is how long a peer may have no session before that is a problem.
	late = 10 * time.Second
	// askPort is how often a port that was taken is asked for again.
	askPort = 10 * time.Second
	// listAgain is how often the learnt paths are listed although no change was reported.
	listAgain = 30 * time.Second
)

var (
	errOther = errors.New(
		"another agent of this node speaks BGP: the two would undo each other's work; stop one of them")
	errNotStarted = errors.New("the speaker has not been started")
)

// GarbagePercent is how much garbage the agent should allow, in percent of the live heap (debug.SetGCPercent). Each
// pass lists all routes; with Go's default of 100, 5,000 of them take 64 MB instead of 50.
const GarbagePercent = 50

// unicast is the one family of addresses that is exchanged.
var unicast = &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}

// goBGP is a speaker. Its zero value is not usable: see newGoBGP. It is safe for concurrent use.
type goBGP struct {
	server *server.BgpServer // of the last Start; nil: none
	wake   wakeup.Signal     // something changed

	mu         sync.Mutex
	claim      io.Closer // held until the process ends: no other agent speaks for this node; nil: not known yet
	session    Session
	wanted     int // port; session has -1 if it was taken
	noListener string
	portAsked  time.Time // noListener was found, or the port asked for again
	portFree   bool
	noPassword string
	started    time.Time
	restart    time.Duration // the longest of the peers'
	peers      map[netip.Addr]*peerState
	announced  map[netip.Prefix]netip.Addr
	heard      bool
	told       bool
	paths      []Path
	stale      int // passes for which paths must be listed again
	listed     time.Time
	settling   *time.Timer        // wakes when paths were told; nil: none were
	stop       context.CancelFunc // ends the watching of the running speaker
}

// peerState is what the speaker keeps of a peer beside its configuration.
func newGoBGP() *goBGP { return &goBGP{wake: wakeup.New(), noPassword: passwordsImpossible()} }

// Start starts the speaker with that session. If its port is taken, for example by RRAS on Windows, it opens sessions
// only.
func (g *goBGP) Start(ctx context.Context, s Session) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.end(ctx); err != nil {
		return fmt.Errorf("ending all sessions: %w", err)
	}
	g.server = server.NewBgpServer(
		server.LoggerOption(slog.New(logr.ToSlogHandler(klog.Background().WithName("gobgp").V(2))), &slog.LevelVar{}))
	go g.server.Serve()

	// All equal paths are asked for, not only the best one.
	global := &api.Global{Asn: s.AS, RouterId: s.RouterID.String(), ListenPort: int32(s.ListenPort),
		ListenAddresses: []string{"0.0.0.0"}, UseMultiplePaths: true}
	err := g.server.StartBgp(ctx, &api.StartBgpRequest{Global: global})
	if err != nil && s.ListenPort > 0 {
		g.noListener = fmt.Sprintf(
			"port %d cannot be listened on (%v): this node only opens sessions itself until it is free; on Windows the service "+
				"RemoteAccess (RRAS) takes port 179: stop it, or set listenPort to -1", s.ListenPort, err)
		g.portAsked = time.Now()
		global.ListenPort = -1
		err = g.server.StartBgp(ctx, &api.StartBgpRequest{Global: global})
	}
	if err != nil {
		return err
	}
	g.session, g.wanted = s, s.ListenPort
	g.session.ListenPort = int(global.ListenPort)
	g.started = time.Now()
	return errors.Join(g.exportOwn(ctx, s.Reflector), g.follow())
}

// end closes all sessions and gives the ports back, if there is a server: GoBGP (v4.8.0) cannot start one again that
// was stopped. Peers with graceful restart keep their routes. Afterwards no server runs, also if there is an error.
func (g *goBGP) end(ctx context.Context) error {
	old := g.server
	g.reset()
	if old == nil {
		return nil
	}
	if g.stop != nil {
		g.stop()
	}
	g.server, g.stop = nil, nil
	err := old.StopBgp(ctx, &api.StopBgpRequest{AllowGracefulRestart: true})
	old.Stop() // its part for BFD
	return err
}

// reset forgets everything of a speaker that has ended. The caller holds the lock.
func (g *goBGP) reset() {
	g.session = Session{}
	g.noListener = ""
	g.portFree = false
	g.restart = 0
	g.started = time.Time{}
	g.peers = map[netip.Addr]*peerState{}
	g.announced = map[netip.Prefix]netip.Addr{}
	g.heard = false
	g.told = false
	g.paths = nil
	g.stale = 1
}

// exportOwn makes the speaker announce what this node announces and nothing else: a node with two routers must not
// carry packets between them. A route reflector passes on what it learns inside its AS too.
func (g *goBGP) exportOwn(ctx context.Context, reflector bool) error {
	accept := func(name string, route api.Conditions_RouteType) *api.Statement {
		return &api.Statement{Name: name, Conditions: &api.Conditions{RouteType: route},
			Actions: &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT}}
	}
	policy := &api.Policy{Name: "announce",
		Statements: []*api.Statement{accept("own", api.Conditions_ROUTE_TYPE_LOCAL)}}
	if reflector {
		policy.Statements = append(policy.Statements, accept("reflected", api.Conditions_ROUTE_TYPE_INTERNAL))
	}

	// SetPolicies of GoBGP v4.8.0 leaves the assignments of its request out.
	if err := g.server.SetPolicies(ctx, &api.SetPoliciesRequest{Policies: []*api.Policy{policy}}); err != nil {
		return err
	}
	return g.server.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
		Name: "global", Direction: api.PolicyDirection_POLICY_DIRECTION_EXPORT,
		Policies:      []*api.Policy{{Name: policy.Name}},
		DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
	}})
}

// follow marks the learnt paths as stale whenever something changed. A path is reported twice, the second time when
// the table has it and it is among the best; therefore nobody is woken at once by the first report.
func (g *goBGP) follow() error {
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	mark := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.stale = 2 // the change may be reported before the table has it
	}
	changed := func() { mark(); g.wake.Wake() }

	return g.server.WatchEvent(ctx, server.WatchEventMessageCallbacks{
		OnPathUpdate: func(paths []*apiutil.Path, _ time.Time) { g.hasNews(paths); mark(); g.wakeLater() },
		OnBestPath:   func([]*apiutil.Path, time.Time) { changed() },
		OnPathEor:    func(end *apiutil.Path, _ time.Time) { g.ended(end.PeerAddress); changed() },
		OnPeerUpdate: func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) { g.peerChanged(e); changed() },
	}, server.WatchPostUpdate(false, "", ""), server.WatchBestPath(false), server.WatchEor(false), server.WatchPeer())
}

// Announce announces a range with this node as its next hop.
func (g *goBGP) Announce(dst netip.Prefix, nextHop netip.Addr) error {
	if err := g.running(); err != nil {
		return err
	}
	path, err := ownPath(dst, nextHop)
	if err != nil {
		return err
	}
	if _, err := g.server.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{path}}); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.announced[dst] = nextHop
	return nil
}

// Withdraw takes an announcement back.
func (g *goBGP) Withdraw(dst netip.Prefix) error {
	g.mu.Lock()
	hop, ok := g.announced[dst]
	g.mu.Unlock()
	if !ok {
		return nil
	}
	path, err := ownPath(dst, hop)
	if err != nil {
		return err
	}
	if err := g.server.DeletePath(apiutil.DeletePathRequest{Paths: []*apiutil.Path{path}}); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.announced, dst)
	return nil
}

func ownPath(dst netip.Prefix, nextHop netip.Addr) (*apiutil.Path, error) {
	nlri, err := bgp.NewIPAddrPrefix(dst)
	if err != nil {
		return nil, err
	}
	hop, err := bgp.NewPathAttributeNextHop(nextHop)
	if err != nil {
		return nil, err
	}
	return &apiutil.Path{Family: bgp.RF_IPv4_UC, Nlri: nlri,
		Attrs: []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), hop}}, nil
}

// Watch reports changes of sessions and learnt paths.
func (g *goBGP) Watch(ctx context.Context, changed func()) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.wake:
			changed()
		}
	}
}

// State describes the speaker. It lists the learnt paths only if they changed, because there can be thousands.
func (g *goBGP) State(ctx context.Context) (Speaker, error) {
	g.mu.Lock()
	running := !g.started.IsZero()
	g.askForPort()
	s := Speaker{Running: running, Session: g.session, NoListener: g.noListener, PortFree: g.portFree,
		NoPassword: g.noPassword, NoDefault: defaultRouteImpossible()}
	g.mu.Unlock()
	if !running {
		return s, g.check()
	}

	// First whether everything was told, then what: paths that are listed later are not older.
	if err := g.sessions(ctx); err != nil {
		return s, fmt.Errorf("listing the sessions: %w", err)
	}
	if err := g.refresh(); err != nil {
		return s, fmt.Errorf("listing the learnt paths: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Heard = g.heard
	s.Told = g.told
	s.Paths = g.paths
	for dst := range g.announced {
		s.Announced = append(s.Announced, dst)
	}
	slices.SortFunc(s.Announced, netip.Prefix.Compare)
	for _, p := range g.peers {
		s.Neighbours = append(s.Neighbours,
			Neighbour{Peer: p.Peer, Established: p.up, Late: !p.up && time.Since(p.since) > late,
				HalfOpen: p.halfOpenSince(), Renewals: p.renewals, Why: p.why, Since: p.since})
	}
	slices.SortFunc(s.Neighbours, func(a, b Neighbour) int { return a.Addr.Compare(b.Addr) })
	return s, nil
}

// askForPort finds out from time to time whether a port that was taken is free. g.mu is held.
func (g *goBGP) askForPort() {
	if g.noListener == "" || time.Since(g.portAsked) < askPort {
		return
	}
	l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", g.wanted))
	if err == nil {
		l.Close()
	}
	g.portAsked, g.portFree = time.Now(), err == nil
}

// check returns an error while another agent speaks for this node. Unlike a port that is taken, which may be RRAS's,
// two agents would take each other's sessions.
func (g *goBGP) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.claim != nil {
		return nil
	}
	var err error
	g.claim, err = alone()
	return err
}

// running returns an error before Start has succeeded.
func (g *goBGP) running() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started.IsZero() {
		return errNotStarted
	}
	return nil
}

// sessions finds out whether each peer has told all its routes. Once they have, it does not ask again: a session that
// ends later is a reason to use other paths.
func (g *goBGP) sessions(ctx context.Context) error {
	g.mu.Lock()
	told := g.told
	over := time.Since(g.started) > max(g.restart, quiet)
	g.mu.Unlock()
	if told {
		return nil
	}

	told = true
	err := g.server.ListPeer(ctx, &api.ListPeerRequest{}, func(p *api.Peer) {
		if !g.hasTold(p) {
			told = false
		}
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = err == nil && len(g.peers) > 0 && (told || over)
	return err
}

// refresh lists the learnt paths, in the speaker's order of preference, if they may have changed.
func (g *goBGP) refresh() error {
	g.mu.Lock()
	list := g.stale > 0 || time.Since(g.listed) > listAgain
	g.stale = max(g.stale-1, 0)
	g.mu.Unlock()
	if !list {
		return nil
	}

	learnt, err := g.list()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paths, g.listed = learnt, time.Now()
	return nil
}

// toPath converts a path; ok is false for one of our own.
func toPath(p *apiutil.Path) (path Path, ok bool) {
	if !p.PeerAddress.IsValid() || p.PeerAddress.IsUnspecified() || p.Withdrawal {
		return Path{}, false
	}
	nlri, ok := p.Nlri.(*bgp.IPAddrPrefix)
	if !ok {
		return Path{}, false
	}
	// 100 is what a path without a local preference counts as.
	path = Path{Dst: nlri.Prefix.Masked(), Peer: p.PeerAddress, Rank: Rank{LocalPref: 100, External: p.IsFromExternal}}

	for _, attr := range p.Attrs {
		switch a := attr.(type) {
		case *bgp.PathAttributeNextHop:
			path.NextHop = a.Value
		case *bgp.PathAttributeMpReachNLRI:
			path.NextHop = a.Nexthop
		case *bgp.PathAttributeOriginatorId:
			path.Origin = a.Value
		case *bgp.PathAttributeLocalPref:
			path.Rank.LocalPref = a.Value
		case *bgp.PathAttributeMultiExitDisc:
			path.Rank.MED = a.Value
		case *bgp.PathAttributeOrigin:
			path.Rank.Origin = uint32(a.Value)
		case *bgp.PathAttributeAsPath:
			for _, segment := range a.Value {
				path.Rank.ASPathLen += uint32(segment.ASLen())
			}
		}
	}
	return path, path.NextHop.IsValid()
}
