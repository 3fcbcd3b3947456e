package bgp

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// A session is half open (OpenConfirm) while both sides have said who they are and one waits for the other's answer,
// which takes milliseconds. If two speakers connect to each other at one moment, each can end up with the connection
// that it opened itself and wait for an answer on it, and neither closes the other one (GoBGP v4.8.0, opensent: the own
// connection is taken without a word if nothing was read from the other by then). Only the hold time ends that, 90 s by
// default, and neither accepts another connection before. So a session that stays half open is renewed: closed, and
// opened anew.
const (
	// halfOpenLimit is how long a session may stay half open at first. Each renewal in a row doubles it, up to the hold
	// time: a peer that is only slow gets more time, and one that never answers is not asked for ever.
	halfOpenLimit = 3 * time.Second
	// secondLimit is that of the side with the higher address. Where both began at one moment, they would meet again; a
	// second later it listens before the other connects, 1.5 to 2 s after its renewal, and connects after that.
	secondLimit = 4 * time.Second
	// keptLimit is that of a peer whose paths are kept over its restart (RFC 4724): they go with the session.
	keptLimit = 10 * time.Second
)

// halfOpenFor returns how long the session with a neighbour may stay half open.
func (p *planner) halfOpenFor(n Neighbour) time.Duration {
	limit := halfOpenLimit
	if n.Addr.Less(p.self.Addr) {
		limit = secondLimit
	}
	if slices.ContainsFunc(p.seen.Paths, func(path Path) bool { return path.Peer == n.Addr }) {
		limit = keptLimit
	}
	return doubled(limit, n.Renewals, n.Hold)
}

func doubled(limit time.Duration, times int, most time.Duration) time.Duration {
	for range times {
		if limit >= most {
			break
		}
		limit *= 2
	}
	return min(limit, max(most, keptLimit))
}

// noteHalfOpen keeps since when the session with a peer is half open, and has the plan made again when that may be too
// long. g.mu is held.
func (g *goBGP) noteHalfOpen(p *peerState, state bgp.FSMState) {
	if state != bgp.BGP_FSM_OPENCONFIRM {
		p.halfOpen = time.Time{}
		return
	}
	p.halfOpen = time.Now()
	for _, limit := range []time.Duration{halfOpenLimit, secondLimit, keptLimit} {
		time.AfterFunc(doubled(limit, p.renewals, p.Hold)+time.Millisecond, g.wake.Wake)
	}
}

// halfOpenSince returns how long the session has been half open; 0: it is not.
func (p *peerState) halfOpenSince() time.Duration {
	if p.halfOpen.IsZero() {
		return 0
	}
	return time.Since(p.halfOpen)
}

// isHalfOpen asks the speaker itself: what it reports comes later, and a session that is established by now must stay.
func (g *goBGP) isHalfOpen(ctx context.Context, addr netip.Addr) (open bool, err error) {
	err = g.server.ListPeer(ctx, &api.ListPeerRequest{Address: addr.String()}, func(p *api.Peer) {
		open = p.GetState().GetSessionState() == api.PeerState_SESSION_STATE_OPENCONFIRM
	})
	return open, err
}
