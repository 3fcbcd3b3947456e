package status

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/testkit/bubble"
)

// clocked records when each pod is patched.
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

// written returns when a pod was patched.
func (c *clocked) written(name string) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at[name])
}

func (c *clocked) DeletePod(context.Context, string, string, types.UID) error { return nil }

// clockedWriter is a Writer that runs until it is stopped.
func clockedWriter(t *testing.T) (*clocked, *Writer, func()) {
	c := &clocked{at: map[string][]time.Time{}}
	w := New(c, nil)
	ctx, stop := context.WithCancel(t.Context())
	go w.Run(ctx)
	return c, w, stop
}

// TestCrowdWaitsLonger: many changes that are not urgent wait for each other, up to a limit. An urgent one is sent at
// once, with what else the pod has.
func TestCrowdWaitsLonger(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, w, stop := clockedWriter(t)
		defer stop()
		const n, urgent = 160, 7
		began, pods := time.Now(), make([]*v1.Pod, n)

		for i := range pods {
			name := fmt.Sprint(i)
			pods[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
			w.Set(pods[i], v1.PodStatus{Message: "first"}, false, false)
			w.Set(pods[i], v1.PodStatus{Message: "second"}, false, false)
		}

		w.Set(pods[urgent], v1.PodStatus{Phase: v1.PodRunning}, false, true)
		bubble.Wait()
		w.Observe(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pods[urgent].Name, UID: pods[urgent].UID,
			ResourceVersion: "9"}, Status: v1.PodStatus{Phase: v1.PodRunning}})
		time.Sleep(2 * settleMost)
		bubble.Wait()
		for i := range pods {
			want := began.Add(settleMost)
			if i == urgent {
				want = began
			}
			if at := c.written(pods[i].Name); len(at) == 0 || !at[0].Equal(want) || len(at) != 1 {
				t.Errorf("pod %d was written at %v, want once at %v", i, at, want)
			}
		}
		if w.settling != 0 {
			t.Errorf("%d pods count as waiting when none does", w.settling)
		}

		w.Set(pods[0], v1.PodStatus{Message: "third"}, false, false)
		began = time.Now()
		time.Sleep(2 * settleMost)
		bubble.Wait()
		if at := c.written("0"); len(at) != 2 || at[1].Sub(began) != settle {
			t.Errorf("when the others are done pod 0 is written at %v, %s after the change, want %s", at,
				at[len(at)-1].Sub(began), settle)
		}
	})
}

// TestFewWaitLittle: the first of a few pods waits for those that came after it, and is written before the wait of one
// pod more would be over.
func TestFewWaitLittle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, w, stop := clockedWriter(t)
		defer stop()
		const n = 4
		began := time.Now()
		for i := range n {
			name := fmt.Sprint(i)
			w.Set(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}},
				v1.PodStatus{Message: "first"}, false, false)
		}
		w.Forget("1") // it counts no longer
		time.Sleep(2 * settleMost)
		bubble.Wait()
		if at := c.written("0"); len(at) != 1 || at[0].Sub(began) != settle+(n-2)*settleEach {
			t.Errorf("pod 0 of %d was written at %v, want once %s after %v", n, at, settle+(n-2)*settleEach, began)
		}
		if at := c.written("1"); len(at) != 0 {
			t.Errorf("a pod that is gone was written at %v", at)
		}
	})
}
