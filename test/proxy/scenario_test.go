package proxy

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/test/proxy/lab"
)

// scenario is one row of the catalogue of failures. Both halves begin with a stage on which all is programmed.
type scenario struct {
	// id of the row, the issue that it comes from, and what goes wrong.
	id, issue, what string
	host            lab.HostOptions
	// before is called before the proxy starts. It may be nil.
	before func(*stage)
	// inject makes it go wrong.
	inject func(*stage)
	// upstream says what is wrong now with upstream's proxy; "" means that the documented failure does not show. nil:
	// upstream's proxy does not show the failure; unshown is the reason.
	upstream func(*stage) string
	unshown  string
	// ours checks what is required besides: within the time HNS is exactly as the services want it, every service
	// answers, no open connection broke, and the proxy still runs. nil: nothing besides.
	ours   func(*stage)
	within time.Duration // 0 is period
	// everyDay: with the default of a check each 30 s; others have one each 5 s, so that many fit into a test.
	everyDay bool
	// cuts: the fault itself takes the rules away on which open connections depend.
	cuts bool
}

// Row 1.03.
func TestFaults(t *testing.T) {
	for _, list := range [][]scenario{lostObjects, awayAndBack, failingCalls, oddObjects, startAndStop} {
		for _, c := range list {
			t.Run(c.id+"/ours", func(t *testing.T) { c.runOurs(t) })
			if *upstreamToo {
				t.Run(c.id+"/upstream", func(t *testing.T) { c.runUpstream(t) })
			}
		}
	}
}

// lasts returns an upstream of a scenario: a difference that contains part has lasted for five syncs.
func lasts(part string) func(*stage) string {
	return func(s *stage) string { return s.differs(5, part) }
}

// stickyLasts is lasts of the service sticky.
func stickyLasts(s *stage) string { return s.differs(5, s.sticky.Spec.ClusterIP) }

func (c scenario) stage(t *testing.T, ours bool) *stage {
	t.Parallel()
	o := c.host
	o.Name = strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(c.id)) + "u"
	if ours {
		o.Name = o.Name[:len(o.Name)-1] + "p"
	}
	s := newStage(t, ours, o)
	if ours && !c.everyDay {
		s.flags = append(s.flags, "--iptables-sync-period=5s")
	}
	if c.before != nil {
		c.before(s)
	}
	s.begin()
	return s
}

func (c scenario) runOurs(t *testing.T) {
	s := c.stage(t, true)
	started := time.Now()
	c.inject(s)
	s.settle(cmp.Or(c.within, period))
	took := time.Since(started)
	s.used()
	if c.ours != nil {
		c.ours(s)
	}
	s.answers()
	if !c.cuts {
		s.unbroken()
	}
	if ended, err := s.Proxy.Ended(); ended {
		t.Errorf("the proxy has ended: %v", err)
	}
	t.Logf("%s (%s) %s: ours is right after %v", c.id, c.issue, c.what, took.Round(10*time.Millisecond))
}

func (c scenario) runUpstream(t *testing.T) {
	if c.upstream == nil {
		if c.unshown == "" {
			t.Fatal("neither a failure nor a reason why there is none")
		}
		t.Skip(c.unshown)
	}
	s := c.stage(t, false)
	c.inject(s)
	seen := c.upstream(s)
	s.used()
	if seen == "" {
		t.Errorf("%s (%s) %s: the documented failure does not show", c.id, c.issue, c.what)
		return
	}
	t.Logf("%s (%s) %s: upstream %s", c.id, c.issue, c.what, seen)
}

// crashed waits for the proxy to end by itself, and returns the line of its log that says why, or its exit error. It
// returns "" if the proxy is still running after the given time.
func crashed(s *stage, within time.Duration) string {
	select {
	case <-s.Proxy.Done():
	case <-time.After(within):
		return ""
	}
	for line := range strings.Lines(s.Proxy.Log()) {
		if strings.Contains(line, "panic") || strings.Contains(line, "fatal") ||
			strings.Contains(line, "command failed") {
			return "ends: " + strings.TrimSpace(line)
		}
	}
	_, err := s.Proxy.Ended()
	return fmt.Sprintf("ends: %v", err)
}
