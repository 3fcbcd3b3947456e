package kubelet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// The number of pods that the test leaves alone, and of those that it creates, restarts and deletes.
const (
	stable = 10
	churn  = 20
)

// kills returns how often the kubelet is killed: 3 times, or KILLS in the environment.
func kills(t *testing.T) int {
	text := os.Getenv("KILLS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// TestKilledAtRandom kills the kubelet at random moments while thirty pods are made, restarted and deleted. In the end
// all is as without: what was not touched runs in the same containers, everything else runs once, and nothing of a
// deleted pod is left. The test of package kubelet with the same name kills it more often, on a fake runtime.
func TestKilledAtRandom(t *testing.T) {
	n := kills(t)
	w := newWorld(t, setup{limit: 3*time.Minute + time.Duration(n)*6*time.Second})

	before := map[string]string{}
	for i := range stable {
		w.create(t, newPod(fmt.Sprintf("stable-%d", i), "sleep"))
	}
	for i := range stable {
		p := w.until(t, 60*time.Second, fmt.Sprintf("stable-%d", i), ready)
		before[p.Name] = p.Status.ContainerStatuses[0].ContainerID
	}

	ctx, stop := context.WithCancel(w.ctx)
	c := &churner{w: w, rand: rand.New(rand.NewPCG(uint64(n), 7))}
	var wg sync.WaitGroup
	wg.Go(func() { c.run(ctx) })
	moments := rand.New(rand.NewPCG(uint64(n), 8))
	for i := range n {
		<-time.After(time.Duration(moments.IntN(2500)) * time.Millisecond) // the moment of the kill
		w.kubelet.Kill()
		var err error
		w.kubelet, err = w.LaunchKubelet(node, false)
		must(t, err)
		if i%10 == 9 {
			t.Logf("%d kills, %d changes", i+1, c.count())
		}
	}

	stop()
	wg.Wait()
	must(t, c.err)

	w.allUp(t, before)
	w.forget(t, "chaos") // containerd does that, rarely, if a start was cut short
	must(t, w.Client.CoreV1().Pods(namespace).DeleteCollection(w.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.killed = true
	w.nothingLeft(t)
}

// allUp waits until every pod that is not being deleted is Ready, and each of its containers runs exactly once.
func (w *world) allUp(t *testing.T, before map[string]string) {
	t.Helper()
	must(t, wait.For(w.ctx, 90*time.Second, "every pod to be Ready, once", func(ctx context.Context) error {
		pods, err := w.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		list, err := w.Runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
			State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}}})
		if err != nil {
			return err
		}

		running, want := map[string]int{}, 0
		for _, c := range list.Containers {
			running[c.Labels["io.kubernetes.pod.name"]]++
		}
		var errs []error

		for i := range pods.Items {
			p := &pods.Items[i]
			if p.DeletionTimestamp != nil {
				errs = append(errs, fmt.Errorf("pod %s is still being deleted", p.Name))
				continue
			}
			want++
			if err := ready(p); err != nil {
				errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
			}
			if running[p.Name] != 1 {
				errs = append(errs, fmt.Errorf("pod %s has %d running containers", p.Name, running[p.Name]))
			}
		}
		if len(list.Containers) != want {
			errs = append(errs, fmt.Errorf("%d containers run of %d pods", len(list.Containers), want))
		}
		return errors.Join(errs...)
	}))

	for name, was := range before {
		c := w.until(t, 20*time.Second, name, ready).Status.ContainerStatuses[0]
		if c.ContainerID != was || c.RestartCount != 0 {
			t.Errorf("pod %s is in container %s with %d restarts, was in %s", name, c.ContainerID, c.RestartCount, was)
		}
	}
}

// churner creates, restarts and deletes pods.
type churner struct {
	w    *world
	rand *rand.Rand
	err  error

	mu sync.Mutex
	n  int
}

func (c *churner) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

func (c *churner) run(ctx context.Context) {
	tick := time.NewTicker(80 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := c.step(ctx); err != nil && ctx.Err() == nil {
			c.err = errors.Join(c.err, err)
			return
		}
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
}

// step changes one pod: it creates a pod if the name is free, or deletes it (sometimes by force), or ends its
// container.
func (c *churner) step(ctx context.Context) error {
	name := fmt.Sprintf("churn-%d", c.rand.IntN(churn))
	pods := c.w.Client.CoreV1().Pods(namespace)
	p, err := pods.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		p := newPod(name, "sleep")
		if c.rand.IntN(3) == 0 {
			p.Spec.InitContainers = []v1.Container{container("first", "echo", "hello")}
		}
		_, err := pods.Create(ctx, p, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	case p.DeletionTimestamp != nil:
		return nil
	}

	switch c.rand.IntN(6) {
	case 0:
		return ignoreGone(pods.Delete(ctx, name, metav1.DeleteOptions{}))
	case 1:
		now := int64(0)
		return ignoreGone(pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	case 2:
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Running != nil && s.RestartCount < 2 { // more would be back-off
				id := s.ContainerID[len("containerd://"):]
				// it may be gone by now
				_, _ = c.w.Runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id})
			}
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
