package nodestatus

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// TestNetworkOfThisBoot: the node is ready only when the pod network of this boot is made, although the runtime calls
// its network ready before: its CNI configuration has outlived the reboot.
func TestNetworkOfThisBoot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var made atomic.Bool
		w, n := newWorld(func(o *Options) {
			o.NetworkAwaited = func() string {
				if made.Load() {
					return ""
				}
				return "only in boot 1"
			}
		})
		w.object = &v1.Node{}
		w.object.Name = "n"
		run(t, n)
		if c := condition(w.object.Status, v1.NodeReady); c.Status != v1.ConditionFalse ||
			!strings.Contains(c.Message, "only in boot 1") {
			t.Errorf("before: %+v", c)
		}

		made.Store(true)
		n.ReportSoon()
		pass(time.Second)
		if c := condition(w.object.Status, v1.NodeReady); c.Status != v1.ConditionTrue {
			t.Errorf("afterwards: %+v", c)
		}
	})
}
