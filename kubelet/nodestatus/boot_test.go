package nodestatus

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/nodeapi"
)

// TestNetworkOfAnEarlierBoot: after a reboot the node is ready only when the annotation is of this boot, although the runtime calls its
// network ready before. A node without the annotation does not wait.
func TestNetworkOfAnEarlierBoot(t *testing.T) {
	for boot, ready := range map[string]v1.ConditionStatus{"": v1.ConditionTrue, "2": v1.ConditionTrue, "1": v1.ConditionFalse} {
		synctest.Test(t, func(t *testing.T) {
			w, n := newWorld(func(o *Options) { o.Host.BootID = "2" })
			w.object = &v1.Node{}
			w.object.Name = "n"
			if boot != "" {
				w.object.Annotations = map[string]string{nodeapi.NetworkBoot: boot}
			}
			run(t, n)
			c := condition(w.object.Status, v1.NodeReady)
			if c.Status != ready {
				t.Fatalf("annotation %q: %+v", boot, c)
			}
			if ready == v1.ConditionTrue {
				return
			}
			if !strings.Contains(c.Message, "only in boot 1") {
				t.Errorf("message %q", c.Message)
			}

			w.change(func(n *v1.Node) { n.Annotations[nodeapi.NetworkBoot] = "2" })
			pass(time.Second)
			if c := condition(w.object.Status, v1.NodeReady); c.Status != v1.ConditionTrue {
				t.Errorf("annotation of this boot: %+v", c)
			}
			if got := w.heard(); !slices.Contains(got, "network made") {
				t.Errorf("pods that wait are not told: %v", got)
			}
		})
	}
}
