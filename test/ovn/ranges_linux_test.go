package ovn

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
	routes "porthole.dev/porthole/routes/ovn"
)

// setRange gives a node another pod range. Kubernetes allows that only for a Node that is made anew, so that anew
// deletes it before.
func (w faultWorld) setRange(node, subnet string, anew bool) {
	w.t.Helper()
	var changed *corev1.Node
	for _, n := range w.api.Nodes() {
		if n.Name == node {
			changed = n.DeepCopy()
		}
	}
	changed.Spec.PodCIDR = subnet
	if anew {
		writes := w.controller.Status().Writes
		w.api.remove(changed)
		wait.True(w.t, 10*time.Second, "the switch to go", func() bool { return w.controller.Status().Writes > writes })
	}
	w.api.put(changed)
}

// rangeRefused waits until controller and agent of a node have refused a range because of a pod.
func (w faultWorld) rangeRefused(n *node, p *pod, subnet string) {
	w.t.Helper()
	wait.NoError(w.t, 10*time.Second, "the refusal", func() error {
		w.syncAll()
		var used *routes.RangeInUseError
		if err := n.mode.CheckRange(w.t.Context(), netip.MustParsePrefix(subnet)); !errors.As(err, &used) ||
			used.Pods != 1 || !strings.Contains(err.Error(), subnet) {
			return fmt.Errorf("the agent says %v", err)
		}
		want := fmt.Sprintf("the pod range of the node is %s now, and 1 of its pods, as %s/%s,", subnet, p.Namespace,
			p.Name)
		if got := strings.Join(w.controller.Status().Problems, "\n"); !strings.Contains(got, want) ||
			!strings.Contains(got, "drain the node") {
			return fmt.Errorf("the controller says %q, want %q", got, want)
		}
		return nil
	})
}

// TestRangeChanges: while pods of the old range run, nothing changes; without them the node, its new pods and all
// others reach each other.
func TestRangeChanges(t *testing.T) {
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	n1, n2 := w.nodes["n1"], w.nodes["n2"]
	w.listen(n1.space, "n1", n1.addr)
	before := w.flows(n1)
	n1.writes.Store(0)

	w.setRange("n1", "10.244.9.0/24", false)
	w.rangeRefused(n1, a, "10.244.9.0/24")
	if got := w.flows(n1); got != before || n1.writes.Load() != 0 {
		t.Errorf("the agent made %d changes while the range is refused; flows: %s", n1.writes.Load(),
			difference(before, got))
	}
	w.setRange("n1", "10.244.8.0/24", true)
	w.rangeRefused(n1, a, "10.244.8.0/24")
	w.sync()
	for _, to := range []netip.Addr{c.addr, netip.MustParseAddr("10.96.0.20")} {
		port := uint16(8080)
		if to != c.addr {
			port = 80
		}
		w.reach(a.space, to, port, "c")
		w.reach(n1.space, to, port, "c")
	}
	w.reach(c.space, a.addr, 8080, "a")
	if got := w.api.warnings(); !strings.Contains(got, "Node n1 RangeInUse") {
		t.Errorf("events %q", got)
	}

	w.must(second(w.cni("DEL", a)))
	w.api.remove(a.Pod)
	began := time.Now()
	w.sync()
	wait.NoError(t, 10*time.Second, "the new range", func() error {
		w.syncAll()
		if got := w.controller.Status().Problems; len(got) > 0 {
			return fmt.Errorf("the controller says %q", got)
		}
		return n1.mode.CheckRange(t.Context(), netip.MustParsePrefix("10.244.8.0/24"))
	})
	w.sync()
	t.Logf("the node has its new range %v after the last pod of the old one has gone",
		time.Since(began).Round(time.Millisecond))
	b := w.addPod("b", "n1")
	if !netip.MustParsePrefix("10.244.8.0/24").Contains(b.addr) {
		t.Errorf("a pod has the address %s", b.addr)
	}
	w.listen(b.space, "b", b.addr)
	w.service("web", "10.96.0.20", 80, b)
	for _, from := range []*node{n1, n2} {
		w.reach(from.space, b.addr, 8080, "b")
	}
	w.reach(c.space, b.addr, 8080, "b")
	w.reach(b.space, c.addr, 8080, "c")
	w.reach(b.space, n1.addr, 8080, "n1")
	w.reach(n1.space, netip.MustParseAddr("10.96.0.20"), 80, "b")
	w.reach(c.space, netip.MustParseAddr("10.96.0.20"), 80, "b")
}
