package kubelet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// testClock sets the kubelet's clock an hour ahead, then two hours back, then right. Running containers go on,
// containers that crash are restarted as soon as before, pods start and end in normal time, and the lease of the node
// is renewed.
func testClock(t *testing.T, w *world) {
	w.create(t, newPod("steady", "sleep"))
	w.create(t, newPod("crashes", "exit", "3"))
	steady := w.until(t, 30*time.Second, "steady", ready).Status.ContainerStatuses[0].ContainerID
	restarts := restartsOf(w.until(t, 30*time.Second, "crashes", restartedSince(0)))

	for i, offset := range []time.Duration{time.Hour, -time.Hour, 0} {
		err := w.kubelet.ShiftClock(offset)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		must(t, err)
		name := fmt.Sprintf("new-%d", i)
		w.create(t, newPod(name, "sleep"))
		p := w.until(t, 20*time.Second, name, ready)
		// the kubelet writes the time of conditions, which shows its clock
		for _, c := range p.Status.Conditions {
			if off := time.Until(c.LastTransitionTime.Time) - offset; c.Type == v1.PodReady &&
				(off > time.Minute || off < -time.Minute) {
				t.Fatalf("with a clock that is %v off, the pod is Ready since %v", offset, c.LastTransitionTime)
			}
		}

		w.remove(t, name, nil)
		w.untilGone(t, name)
		restarts = restartsOf(w.until(t, 60*time.Second, "crashes", restartedSince(restarts)))
		w.leaseRenewed(t, offset)
		if c := w.until(t, time.Second, "steady", ready).Status.ContainerStatuses[0]; c.ContainerID != steady ||
			c.RestartCount != 0 {
			t.Errorf("with a clock that is %v off, the pod that ran: %+v", offset, c)
		}
	}
	for _, name := range []string{"steady", "crashes"} {
		w.remove(t, name, nil)
		w.untilGone(t, name)
	}
}

func restartsOf(p *v1.Pod) int32 {
	if len(p.Status.ContainerStatuses) == 0 {
		return 0
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

func restartedSince(before int32) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		if restartsOf(p) <= before {
			return fmt.Errorf("it has not restarted: %s", statusText(p))
		}
		return nil
	}
}

// leaseRenewed waits for a renewal of the node's lease by a clock that is wrong by offset.
func (w *world) leaseRenewed(t *testing.T, offset time.Duration) {
	t.Helper()
	must(t, wait.For(w.ctx, 30*time.Second, "the lease of the node", func(ctx context.Context) error {
		lease, err := w.Client.CoordinationV1().Leases("kube-node-lease").Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			if off := time.Until(lease.Spec.RenewTime.Time) - offset; off > time.Minute || off < -time.Minute {
				err = fmt.Errorf("it was renewed at %v", lease.Spec.RenewTime)
			}
		}
		return err
	}))
}
