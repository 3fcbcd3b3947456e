package bgp

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"k8s.io/klog/v2"
)

// peerState is a peer, and what is known of its session.
type peerState struct {
	Peer
	since time.Time // its session was established or lost, or it was added
	news  time.Time // it told something
	up    bool
	ended bool // it has marked the end of its routes
	// halfOpen is since when its session is half open; zero: it is not.
	halfOpen time.Time
	// renewals are those since it had a session.
	renewals int
	// restarting is that of SetPeer, until there was a session.
	restarting bool
	why        string
}

// peerChanged keeps when a session was established or lost, and why.
func (g *goBGP) peerChanged(e *apiutil.WatchEventMessage_PeerEvent) {
	if e.Type != apiutil.PEER_EVENT_STATE {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[e.Peer.State.NeighborAddress]
	if p == nil {
		return
	}

	g.noteHalfOpen(p, e.Peer.State.SessionState)
	up := e.Peer.State.SessionState == bgp.BGP_FSM_ESTABLISHED
	if up != p.up {
		p.up = up
		p.since = time.Now()
		p.ended = false
		klog.Background().WithName("bgp").
			Info("Session changed", "peer", p.Addr, "established", up, "reason", e.Peer.State.DisconnectMessage)
	}
	if up {
		g.heard = true
		p.why = ""
		p.renewals = 0
		p.restarting = false
	} else if e.Peer.State.DisconnectMessage != "" {
		p.why = e.Peer.State.DisconnectMessage
	}
}

// hasNews notes that a peer tells something. The paths are all of one peer.
func (g *goBGP) hasNews(paths []*apiutil.Path) {
	if len(paths) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.peers[paths[0].PeerAddress]; p != nil {
		p.news = time.Now()
	}
}

// ended notes that a peer has told all its routes. The speaker's own state does not say so: it takes a peer that has
// just started itself for one that has nothing to tell.
func (g *goBGP) ended(peer netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.peers[peer]; p != nil {
		p.ended = true
	}
}

// SetPeer adds a peer, or closes its session and adds it anew. Of a peer that it has as it should be it renews the
// session, if that is half open.
func (g *goBGP) SetPeer(ctx context.Context, p Peer, restarting bool) error {
	if err := g.running(); err != nil {
		return err
	}
	next := &peerState{Peer: p, since: time.Now(), why: "it does not answer", restarting: restarting}
	if old, has := g.peer(p.Addr); has && old.Peer == p {
		if open, err := g.isHalfOpen(ctx, p.Addr); err != nil || !open {
			return err
		}
		next.since = old.since
		next.why = "it opens a session and does not answer"
		next.restarting = old.restarting
		next.renewals = old.renewals + 1
	}

	if err := g.DeletePeer(ctx, p.Addr); err != nil {
		return err
	}
	g.mu.Lock()
	g.peers[p.Addr] = next
	g.restart = max(g.restart, p.Restart)
	session := g.session
	g.mu.Unlock()

	err := g.server.AddPeer(ctx, &api.AddPeerRequest{Peer: toAPI(session, p, next.restarting)})
	if err != nil {
		g.mu.Lock()
		delete(g.peers, p.Addr)
		g.mu.Unlock()
	}
	return err
}

// DeletePeer closes a session for good. A peer that is gone is success.
func (g *goBGP) DeletePeer(ctx context.Context, addr netip.Addr) error {
	g.mu.Lock()
	_, known := g.peers[addr]
	g.mu.Unlock()
	if !known {
		return nil
	}
	if err := g.server.DeletePeer(ctx, &api.DeletePeerRequest{Address: addr.String()}); err != nil {
		return err
	}
	g.mu.Lock()
	delete(g.peers, addr)
	g.mu.Unlock()
	return nil
}

// peer returns a copy of what is known of a peer.
func (g *goBGP) peer(addr netip.Addr) (p peerState, has bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.peers[addr]; known != nil {
		return *known, true
	}
	return peerState{}, false
}

// hasTold reports whether a peer has told all its routes: it said so, or it is one that does not say so and has been
// quiet for a while.
func (g *goBGP) hasTold(p *api.Peer) bool {
	addr, _ := netip.ParseAddr(p.GetState().GetNeighborAddress())
	g.mu.Lock()
	defer g.mu.Unlock()
	state := g.peers[addr]
	if state == nil || !state.up {
		return false
	}

	// A peer marks the end of its routes if it has the capability, also without any address family: then it does not
	// keep routes over a restart of its own (RFC 4724, 3), like BIRD by default.
	marks := state.Restart > 0 &&
		slices.ContainsFunc(p.GetState().GetRemoteCap(),
			func(c *api.Capability) bool { return c.GetGracefulRestart() != nil })
	last := state.since
	if state.news.After(last) {
		last = state.news
	}
	return state.ended || !marks && time.Since(last) > quiet
}

// toAPI translates a peer. Times go in whole seconds, those of BFD in microseconds.
func toAPI(s Session, p Peer, restarting bool) *api.Peer {
	peer := &api.Peer{
		Conf: &api.PeerConf{NeighborAddress: p.Addr.String(), PeerAsn: p.AS, AuthPassword: p.Password,
			AllowOwnAsn: uint32(p.AllowOwnAS)},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime: uint64(p.Hold / time.Second), KeepaliveInterval: uint64(p.Keepalive / time.Second),
			ConnectRetry: uint64(p.Retry / time.Second), IdleHoldTimeAfterReset: 1,
		}},
		Transport: &api.Transport{PassiveMode: p.Passive, RemotePort: uint32(p.Port)},
		AfiSafis: []*api.AfiSafi{{Config: &api.AfiSafiConfig{Family: unicast, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: p.Restart > 0}}}},
	}

	if p.Restart > 0 {
		peer.GracefulRestart = &api.GracefulRestart{
			Enabled: true, RestartTime: uint32(p.Restart / time.Second), DeferralTime: uint32(deferral / time.Second),
			LocalRestarting: restarting,
		}
	}
	// Sessions within one AS may pass routers anyway.
	if p.Multihop > 0 && p.AS != s.AS {
		peer.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(p.Multihop)}
	}
	if p.Client {
		peer.RouteReflector = &api.RouteReflector{RouteReflectorClient: true,
			RouteReflectorClusterId: s.ClusterID.String()}
	}
	if p.BFD != (Detection{}) {
		peer.Bfd = &api.BfdPeerConfig{
			Enabled: true, DetectionMultiplier: uint32(p.BFD.Multiplier),
			DesiredMinimumTxInterval: uint32(p.BFD.Transmit.Microseconds()),
			RequiredMinimumReceive:   uint32(p.BFD.Receive.Microseconds()),
		}
	}
	return peer
}
