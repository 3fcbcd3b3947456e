package routes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/routes/bgp"
)

// remembering returns a node of the mode bgp whose memory is in a file.
func remembering(t *testing.T, file string, nodes ...*corev1.Node) *testNode {
	t.Helper()
	w := newTestNode(t, Options{Mode: BGP})
	w.cluster.set(nodes...)
	m := newMemory(w.cluster, file)
	w.agent.cluster, w.drain.memory = m, m
	go m.run(t.Context(), w.saving)
	w.start(t)
	return w
}

// TestStartsWithoutTheAPIServer: an agent that starts while the API server is away makes what an earlier one made, and
// does what the API server says as soon as it answers.
func TestStartsWithoutTheAPIServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state", NodesFile)
		one, two := node("win01", "10.99.0.21", "10.244.1.0/24"), node("lin01", "10.99.0.11", "10.244.0.0/24")
		one.Annotations = map[string]string{"porthole.dev/bgp-peers": "[]"}
		one.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		first := remembering(t, file, one, two)
		first.changed(nil)
		bubble.Wait()
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("the file of the nodes: %v, %v", info, err)
		}

		next := remembering(t, file)
		later(patience - 2*time.Second)
		if got := next.table.dump(); got != "" {
			t.Errorf("routes before the API server had time to answer: %s", got)
		}
		later(4 * time.Second)
		if got := next.table.dump(); got != "10.244.0.0/24 via 10.99.0.11" {
			t.Errorf("routes %q", got)
		}
		if self := next.agent.cluster.Self(); self == nil || self.Annotations["porthole.dev/bgp-peers"] != "[]" ||
			len(self.Status.Conditions) != 1 {
			t.Errorf("this node is remembered as %+v", self)
		}

		next.cluster.set(one, node("lin01", "10.99.0.12", "10.244.0.0/24"))
		next.changed(nil)
		later(time.Second)
		if got := next.table.dump(); got != "10.244.0.0/24 via 10.99.0.12" {
			t.Errorf("routes when the API server answers: %q", got)
		}
		later(saveInterval)
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "10.99.0.12") {
			t.Errorf("the file: %s, %v", text, err)
		}
	})
}

// TestRemembersADrain starts an agent that cannot read the pods of its node. If the agent before it saw the node
// drained, the new one treats the node as drained until it has read the pods itself. A node that is not cordoned is
// never treated so.
func TestRemembersADrain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), NodesFile)
		free := node("win01", "10.99.0.21", "10.244.1.0/24")
		cordoned := free.DeepCopy()
		cordoned.Spec.Unschedulable = true
		start := func(after time.Duration, nodes ...*corev1.Node) *testNode {
			t.Helper()
			w := remembering(t, file, nodes...)
			w.changed(nil)
			later(after)
			return w
		}
		want := func(when string, w *testNode, pods bgp.Pods) {
			t.Helper()
			if got := w.drain.pods(); got != pods {
				t.Errorf("%s: %+v, want %+v", when, got, pods)
			}
		}

		first := start(awaited, cordoned)
		want("before the first answer", first, bgp.Pods{})
		pods := first.cluster.pods
		pods.set(func() { pods.list, pods.err = []*corev1.Pod{{}}, nil })
		want("with a pod", first, bgp.Pods{Known: true, Left: 1})
		pods.set(func() { pods.list = nil })
		want("drained", first, bgp.Pods{Known: true})

		const refused = "connection refused"
		away := start(patience + awaited + time.Second) // at once: what was decided is in the file
		want("the API server is away", away, bgp.Pods{Known: true})
		pods = away.cluster.pods
		pods.set(func() { pods.err = errors.New(refused) })
		want("it says why", away, bgp.Pods{Known: true, Why: refused})
		pods.set(func() { pods.list, pods.err = []*corev1.Pod{{}}, nil })
		want("it is back, and there is a pod", away, bgp.Pods{Known: true, Left: 1})

		away.cluster.set(cordoned)
		pods.set(func() { pods.list = nil })
		want("it is back, and there is none", away, bgp.Pods{Known: true})
		slow := start(awaited+time.Second, cordoned)
		want("the nodes are known and the pods are not", slow, bgp.Pods{Known: true})
		slow.cluster.set(free)
		slow.changed(nil)
		later(time.Second)
		want("uncordoned", slow, bgp.Pods{})
		slow.cluster.set(cordoned)
		slow.changed(nil)
		later(time.Second)
		want("cordoned again, and the pods are not known", slow, bgp.Pods{})
	})
}

// TestRemembersNothing: without a file, or with one that was cut short, the agent waits for the API server.
func TestRemembersNothing(t *testing.T) {
	for name, content := range map[string]string{"no file": "", "half a file": `[{"metadata":{"name":"win01"`} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), NodesFile)
				if content != "" {
					if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				w := remembering(t, file)
				later(time.Minute)
				if got := w.table.dump(); got != "" || !strings.Contains(w.status().Network, "not known yet") {
					t.Errorf("routes %q, status %+v", got, w.status())
				}
			})
		})
	}
}
