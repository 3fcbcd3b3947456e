package status

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// clocked notes when each pod is patched.
type clocked struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (c *clocked) PatchPodStatus(_ context.Context, _, name string, _ []byte) (*v1.Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[name] = append(c.at[name], time.Now())
	return nil, nil
}

func (c *clocked) DeletePod(context.Context, string, string, types.UID) error { return nil }

// TestCrowdWaitsLonger: of many pods with news that is not urgent each waits longer than the one before it, but not for
// ever; what is urgent goes at once and takes the rest along.
func TestCrowdWaitsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clocked{at: map[string][]time.Time{}}
		w := New(c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.Run(ctx)
		const n, urgent = 60, 7
		began, pods := time.Now(), make([]*v1.Pod, n)
		for i := range pods {
			name := fmt.Sprint(i)
			pods[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
			w.Set(pods[i], v1.PodStatus{Message: "first"}, false, false)
			w.Set(pods[i], v1.PodStatus{Message: "second"}, false, false)
		}
		w.Set(pods[urgent], v1.PodStatus{Phase: v1.PodRunning}, false, true)
		synctest.Wait()
		w.Observe(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pods[urgent].Name, UID: pods[urgent].UID, ResourceVersion: "9"}, Status: v1.PodStatus{Phase: v1.PodRunning}})
		time.Sleep(2 * settleMost)
		for i := range pods {
			want := began.Add(min(settle+time.Duration(i)*settleEach, settleMost))
			if i == urgent {
				want = began
			}
			if at := c.at[pods[i].Name]; len(at) == 0 || !at[0].Equal(want) || len(at) != 1 {
				t.Errorf("pod %d was written at %v, want once at %v", i, at, want)
			}
		}
		w.Set(pods[0], v1.PodStatus{Message: "third"}, false, false)
		began = time.Now()
		time.Sleep(2 * settleMost)
		if at := c.at["0"]; len(at) != 2 || at[1].Sub(began) != settle {
			t.Errorf("when the others are done pod 0 is written at %v, %s after the change, want %s", at, at[len(at)-1].Sub(began), settle)
		}
	})
}
