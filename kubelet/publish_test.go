package kubelet

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/runtime"
)

// patches counts the patches of pods.
type patches struct {
	kube.Offline
	n atomic.Int32
}

func (p *patches) PatchPodStatus(context.Context, string, string, []byte) (*v1.Pod, error) {
	p.n.Add(1)
	return nil, nil
}

// TestVanishingPod: a pod that turns unready is reported at once, unless the API is about to forget it.
func TestVanishingPod(t *testing.T) {
	zero, some := int64(0), int64(30)
	for _, c := range []struct {
		name  string
		grace *int64
		want  int32
	}{{"running", nil, 1}, {"deleted", &some, 1}, {"deleted without grace", &zero, 0}} {

		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				api := &patches{}
				k := New(Options{Node: nodestatus.Options{Name: "n"}, API: NewAPI(api),
					Runtime: NewRuntime(&runtime.Runtime{})})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go k.status.Run(ctx)

				a := k.newActor("u")
				p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"},
					Status: v1.PodStatus{Phase: v1.PodRunning,
						Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}}
				if c.grace != nil {
					now := metav1.Now()
					p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, c.grace
				}
				a.take(pod.Desired{Pod: p}, time.Now())
				a.take(pod.Checked{Runtime: &observed.Runtime{UID: "u"}, Began: time.Now()}, time.Now())

				a.publish(&pod.Plan{Status: v1.PodStatus{Phase: v1.PodRunning,
					Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}}})
				bubble.Wait()
				if n := api.n.Load(); n != c.want {
					t.Errorf("%d patches at once, want %d", n, c.want)
				}
				time.Sleep(5 * time.Second)
				if n := api.n.Load(); n != 1 {
					t.Errorf("%d patches in the end, want 1", n)
				}
			})
		})
	}
}
