package latency

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestLanes: writes to one network come one after another, reads and writes to others do not wait; what was injected is
// added up.
func TestLanes(t *testing.T) {
	var l Injector
	if l.Injects() {
		t.Error("no table injects")
	}
	l.Set(Table{Name: "test", Read: time.Millisecond, Create: 2 * time.Millisecond})
	var all sync.WaitGroup
	var mu sync.Mutex
	busy := map[string]bool{}

	for n := range 6 {
		c := Call{Program: "p", Function: "HcnCreateEndpoint", Write: true, Network: string('a' + rune(n%2))}
		all.Go(func() {
			l.Run(t.Context(), c, func() bool {
				mu.Lock()
				if busy[c.Network] {
					t.Error("two writes to one network at once")
				}
				busy[c.Network] = true
				mu.Unlock()
				time.Sleep(time.Microsecond)
				mu.Lock()
				busy[c.Network] = false
				mu.Unlock()
				return true
			})
			l.Run(t.Context(), Call{Program: "p", Function: "HcnOpenEndpoint"}, func() bool { return true })
		})
	}
	all.Wait()

	r := l.Report()
	p := r.Programs["p"]
	if p.Writes != 6 || p.Reads != 6 || !near(p.WriteSeconds, 0.012) || r.Networks["a"].Writes != 3 {
		t.Errorf("%+v", r)
	}
	l.Reset()
	if r := l.Report(); len(r.Programs)+len(r.Networks) != 0 || r.Profile != "test" {
		t.Errorf("after a reset %+v", r)
	}
}

// TestNotRun: a call whose turn does not come is not run, and one that is given up is not added up.
func TestNotRun(t *testing.T) {
	var l Injector
	l.Set(Table{Name: "test", Create: time.Millisecond})
	c := Call{Function: "HcnCreateEndpoint", Write: true, Network: "n"}
	ctx, cancel := context.WithCancel(t.Context())
	l.Run(t.Context(), c, func() bool {
		cancel()
		if l.Run(ctx, c, func() bool { t.Error("run"); return true }) {
			t.Error("its turn has come")
		}
		return false
	})
	if r := l.Report(); len(r.Programs) != 0 {
		t.Errorf("%+v", r)
	}
}

func near(a, b float64) bool { return a > b-1e-6 && a < b+1e-6 }
