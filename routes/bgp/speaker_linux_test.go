package bgp

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestStartAgain: a speaker starts again with another session, and after one that it could not start with.
func TestStartAgain(t *testing.T) {
	right := Session{AS: 64512, RouterID: netip.MustParseAddr("10.0.0.1"), ListenPort: -1}
	other, wrong := right, right
	other.AS, wrong.RouterID = 64513, netip.MustParseAddr("fd00::1")

	g := newGoBGP()
	for i, step := range []struct {
		session Session
		works   bool
	}{{wrong, false}, {wrong, false}, {right, true}, {other, true}, {wrong, false}, {wrong, false}, {right, true}} {
		err := g.Start(t.Context(), step.session)
		s, _ := g.State(t.Context())
		if (err == nil) != step.works || s.Running != step.works || step.works && s.Session != step.session {
			t.Errorf("step %d: %s: %v, running %t with %s", i, step.session, err, s.Running, s.Session)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.end(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestASNumberChanges: a node whose annotation gives it another AS closes its sessions and opens them again. It
// listens on its port again, too.
func TestASNumberChanges(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	r.start(func(int) string { return fast + "fullMesh: true\nbfd: {enabled: true}\n" })
	r.complete(20 * time.Second)

	list := nodes()
	list[0].Annotations = map[string]string{AnnotationAS: "65100"}
	for _, a := range r.agents {
		a.nodes(list)
	}
	for i, a := range r.agents[1:] {
		wait.NoError(t, 20*time.Second, hosts[i+1].name+" to have a session with the new AS", func() error {
			for _, p := range a.status().Peers {
				if p.Address == hosts[0].addr && p.AS == 65100 && p.Up {
					return nil
				}
			}
			return fmt.Errorf("status %+v", a.status())
		})
	}
	r.complete(20 * time.Second)
	for i := range hosts {
		r.wantRoutes(i, 5*time.Second, direct(i)...)
	}
	if problems := r.agents[0].status().Problems; len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	// The checks above may have seen the sessions of before for a moment, beside the new number.
	wait.NoError(t, 20*time.Second, "every pod to reach the others", r.cut)
}
