package bgp

import (
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// A session is half open (OpenConfirm) while both sides have said who they are and one waits for the other's answer,
// which takes milliseconds. If two speakers connect to each other at one moment, each can end up with the connection
// that it opened itself and wait for an answer on it, and neither closes the other one (GoBGP v4.8.0, opensent: the own
// connection is taken without a word if nothing was read from the other by then). Only the hold time ends that, 90 s by
// default, and neither accepts another connection before. So a session that stays half open is closed and opened anew.
const (
	// halfOpenLimit is how long a session may stay half open.
	halfOpenLimit = 3 * time.Second
	// secondLimit is that of the side with the higher address: if both began anew at one moment, they could meet again.
	secondLimit = 5 * time.Second
)

// noteHalfOpen keeps since when the session with a peer is half open, and has somebody look when that was too long.
// g.mu is held.
func (g *goBGP) noteHalfOpen(p *peerState, state bgp.FSMState) {
	if state != bgp.BGP_FSM_OPENCONFIRM {
		p.halfOpen = time.Time{}
		return
	}
	p.halfOpen = time.Now()
	time.AfterFunc(patience(g.session.RouterID, p.Addr)+time.Millisecond, g.wake.Wake)
}

// isHalfOpen reports whether the session with a peer has been half open for too long. g.mu is held.
func (g *goBGP) isHalfOpen(p *peerState) bool {
	return !p.halfOpen.IsZero() && time.Since(p.halfOpen) >= patience(g.session.RouterID, p.Addr)
}

func patience(self, peer netip.Addr) time.Duration {
	if peer.Less(self) {
		return secondLimit
	}
	return halfOpenLimit
}
