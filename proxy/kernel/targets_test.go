package kernel

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// TestTargetsAgree changes targets at random, with a fixed seed, and compares after each step what is derived from them
// with the targets themselves: the tally, the failing ones, and that each service whose status changed is touched.
func TestTargetsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(30, 1))
	r := &report{session: &session{ctx: context.Background()}, touched: map[string]bool{}}
	ts := newTargets(r)
	services := []string{"default/a", "default/b", "default/c"}
	key := func() service.Key {
		return service.Key{VIP: netip.AddrFrom4([4]byte{10, 96, 0, byte(random.IntN(4))}), Protocol: hns.TCP,
			Port: uint16(80 + random.IntN(2))}
	}

	steps := map[string]int{}
	for range 5000 {
		before := states(ts)
		k, by := key(), services[random.IntN(len(services))]
		old := ts.at(k)
		switch step := random.IntN(6); {
		case step == 0:
			f := &service.Frontend{Key: k, Service: by}
			if random.IntN(4) > 0 {
				f.Backends = []service.Backend{{Addr: netip.MustParseAddr("10.244.1.2"), Port: 8080}}
			}
			derived := random.IntN(3) == 0
			got := ts.claim(f, by, derived, rank(service.RankOther))
			taken := derived && old != nil && before[k].wanted && (!before[k].derived || before[k].service != by)
			if (got == nil) != taken {
				t.Fatalf("claim of %v by %s (derived %v) with %+v: target %v", k, by, derived, before[k], got)
			}
			if got != nil {
				ts.setDone(got, false)
			}
			steps["claim"]++
		case old == nil:
		case step == 1:
			if got := ts.release(k, by); (got != nil) != (before[k].service == by) {
				t.Fatalf("release of %v by %s with %+v: target %v", k, by, before[k], got)
			} else if got != nil {
				ts.setDone(got, false)
			}
			steps["release"]++
		case step == 2:
			ts.fail(old, retries{}.after(old.failure, problemOf(old, "HNSFailed", "no"), nil))
			steps["fail"]++
		case step == 3:
			ts.succeed(old)
			ts.setDone(old, true)
			steps["succeed"]++
		case step == 4:
			ts.setDone(old, false)
			steps["pending"]++
		case step == 5:
			ts.succeed(old)
			if dropped := ts.drop(old); dropped == before[k].wanted || ts.has(old) != before[k].wanted {
				t.Fatalf("drop of %v with %+v: %v, still there %v", k, before[k], dropped, ts.has(old))
			}
			steps["drop"]++
		}
		checkDerived(t, ts, before)
	}
	if len(steps) != 6 {
		t.Errorf("steps %v, want all six", steps)
	}
}

// view is what a report depends on.
type view struct {
	service         string
	wanted, derived bool
	done            bool
	state           health.State
}

func states(ts *targets) map[service.Key]view {
	all := map[service.Key]view{}
	for k, t := range ts.byKey {
		all[k] = view{t.service, t.f != nil, t.derived, t.done, t.state}
	}
	return all
}

func checkDerived(t *testing.T, ts *targets, before map[service.Key]view) {
	t.Helper()
	var want tally
	for k, target := range ts.byKey {
		if (target.failure != nil) != ts.failing[target] {
			t.Fatalf("%v: failure %v, among the failing ones %v", k, target.failure, ts.failing[target])
		}
		now := view{target.service, target.f != nil, target.derived, target.done, target.state}
		if old, was := before[k]; was && (old.done != now.done || old.state != now.state) &&
			!ts.report.touched[now.service] {
			t.Fatalf("%v went from %+v to %+v, and its service is not touched", k, old, now)
		}

		if target.derived {
			continue
		}
		switch target.state {
		case health.Programmed:
			want.programmed++
		case health.Pending:
			want.pending++
		case health.Failed:
			want.failed++
		}
	}

	want.wanted = want.programmed + want.pending + want.failed
	if ts.report.tally != want {
		t.Fatalf("tally %+v, want %+v", ts.report.tally, want)
	}
	for target := range ts.failing {
		if !ts.has(target) {
			t.Fatalf("%v fails and is no target any more", target.key)
		}
	}
	clear(ts.report.touched)
}
