package kubelet

import (
	"fmt"
	"testing"
	"time"
)

// testKilled kills the kubelet while pods start, run and end. What ran goes on in the same containers, what was half
// made is finished, and what was deleted meanwhile ends.
func testKilled(t *testing.T, w *world) {
	name := func(i int) string { return fmt.Sprintf("churn-%d", i) }
	for i := range 5 {
		w.create(t, newPod(name(i), "sleep"))
	}
	before := map[string]string{}
	for i := range 5 {
		p := w.until(t, 20*time.Second, name(i), ready)
		before[p.Name] = p.Status.ContainerStatuses[0].ContainerID
	}

	for i := 5; i < 8; i++ {
		w.create(t, newPod(name(i), "sleep"))
	}
	// not a wait for anything: the moment of the kill, among sandboxes and containers
	<-time.After(150 * time.Millisecond)
	w.kubelet.Kill()
	now := int64(0)
	w.remove(t, name(0), nil)  // the API keeps it until the kubelet says that it has ended
	w.remove(t, name(1), &now) // the API forgets it: only the runtime knows it
	w.startKubelet()

	for i := 2; i < 8; i++ {
		p := w.until(t, 30*time.Second, name(i), ready)
		c := p.Status.ContainerStatuses[0]
		if was := before[p.Name]; was != "" && (was != c.ContainerID || c.RestartCount != 0) {
			t.Errorf("pod %s: container %s with %d restarts, was %s", p.Name, c.ContainerID, c.RestartCount, was)
		}
	}
	for i := 2; i < 8; i++ {
		w.remove(t, name(i), nil)
	}
}
