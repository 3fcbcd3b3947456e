package routes

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/routes/hostgw"
	"porthole.dev/porthole/routes/keep"
)

// holding is a mode that knows whether pods of an earlier range run.
type holding struct {
	keeper
	held *atomic.Bool
}

// heldError is an error about which somebody has to decide.
type heldError struct{ error }

func (heldError) NeedsDecision() {}

func (h holding) checkRange(_ context.Context, subnet netip.Prefix) error {
	if h.held.Load() {
		return heldError{errors.New("pods hold another range than " + subnet.String())}
	}
	return nil
}

// TestRangeHeld: while a mode refuses the node's range, the network and the CNI configuration stay as they are, and
// the node says so.
func TestRangeHeld(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		var held atomic.Bool
		w.modes = modeTable{{DefaultMode, func(e environment) (keeper, error) {
			return holding{keep.New(hostgw.New(e.Node, e.cluster(), w.table), e.Keep), &held}, nil
		}}}
		w.start(t)
		w.mustBeRight(t)
		held.Store(true)
		w.cluster.set(node("win01", "10.99.0.21", "10.244.9.0/24"), node("win02", "10.99.0.22", "10.244.2.0/24"),
			node("lin01", "10.99.0.11", "10.244.0.0/24"))
		w.changed(nil)
		later(networkPeriod)

		if _,
			warnings := w.cluster.written(); warnings != "NetworkDiffers: pods hold another range than 10.244.9.0/24" {
			t.Errorf("warnings %q", warnings)
		}
		if got := w.status().unhealthy(true); !strings.Contains(got, "10.244.9.0/24") {
			t.Errorf("health %q", got)
		}
		if w.hns.DumpNetworks() != rightNetwork {
			t.Errorf("HNS has changed:\n%s", w.hns.DumpNetworks())
		}
		data, err := os.ReadFile(filepath.Join(w.conf, "10-porthole.conf"))
		if err != nil || !strings.Contains(string(data), "10.244.1.3") {
			t.Errorf("the CNI configuration has changed: %v: %s", err, data)
		}

		held.Store(false)
		later(networkPeriod)
		if !strings.Contains(w.hns.DumpNetworks(), "10.244.9.0/24") {
			t.Errorf("without pods HNS has\n%s", w.hns.DumpNetworks())
		}
	})
}
