package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// startPart measures n pods at once: from the first bind until all are Ready, what they cost, and their end.
// The part's figures are the time, what it cost by spender, and for 50 pods the time of their end.
func startPart(name string, n, rounds int, target func(float64, float64) float64) kubeletPart {
	id := fmt.Sprintf("start-%d", n)
	title := fmt.Sprintf("kubelet-bind-to-ready-%d", n)
	note :=
		"floor: RunPodSandbox with the seccomp profile of the runtime, CreateContainer, StartContainer, ContainerStatus"
	if n > 1 {
		title = title + "-at-once"
		note = "from the first bind until the last pod is Ready; " + note
	}
	p := kubeletPart{name: name, rounds: rounds,
		lines: []line{{key: id, name: title, unit: "s", target: target, note: note}}}
	batch := batchPart{id: id, n: n, calls: n > 1}
	p.lines = append(p.lines, batch.costLines()...)
	if n == 50 {
		p.lines = append(p.lines,
			line{key: id + "-stopped", name: "kubelet-delete-50", unit: "s", target: ofFloor(1.15, 0),
				note: "grace 0; until no pod is in the API and no sandbox runs; floor: StopContainer, StopPodSandbox, RemovePodSandbox"},
			line{key: id + "-removed", name: "kubelet-delete-50-removed", unit: "s", target: ofFloor(1.15, 0),
				note: "until the runtime has no sandbox any more; upstream's kubelet leaves them for up to a minute"})
	}

	// Floor and kubelets fill the same figures. Upstream's kubelet has no time for the removal,
	// because removeAll removes its sandboxes for it.
	keep := func(s *side, each []float64, all float64, end ending) {
		s.add(id, all)
		s.add(id+"-stopped", end.stopped)
		if s.name != peer {
			s.add(id+"-removed", end.removed)
		}
		if n > 1 {
			s.add(id+"-each", each...)
		}
	}

	p.floor = func(ctx context.Context, s *side, rounds int) error {
		return s.counted(ctx, batch, rounds, func(ready func() error) error {
			each, all, end, err := s.bareBatch(ctx, n, ready)
			if err == nil {
				keep(s, each, all, end)
			}
			return err
		})
	}

	p.measure = func(ctx context.Context, s *side, rounds int) error {
		return s.counted(ctx, batch, rounds, func(ready func() error) error {
			b, err := s.start(ctx, n, nil)
			if err != nil {
				return err
			}
			if err := ready(); err != nil {
				return err
			}
			end, err := b.end(ctx)
			if err == nil {
				keep(s, b.each, b.all, end)
			}
			return err
		})
	}

	return p
}

// ending is how long the end of a batch took: until nothing of it ran and the API had forgotten it, and until the
// runtime had forgotten it too. In seconds.
// A batch whose sandboxes somebody else removed has removed = 0.
type ending struct{ stopped, removed float64 }

// batch of pods that run.
// seen is followed anew by whoever waits for a change: a watch says what happened since it began.
type batch struct {
	s     *side
	seen  *watcher
	names []string
	each  []float64 // from bind to Ready, in seconds
	all   float64   // from the first bind to the last Ready
}

// patience bounds what is done with n pods.
func patience(n int) time.Duration { return time.Minute + time.Duration(n)*time.Second }

// start makes n pods that are bound to the node and waits for the watch to say that they are Ready. change may adapt
// each pod.
func (s *side) start(ctx context.Context, n int, change func(int, *v1.Pod)) (*batch, error) {
	ctx, cancel := context.WithTimeout(ctx, patience(n))
	defer cancel()
	b := &batch{s: s, seen: newWatcher(), each: make([]float64, n)}
	if err := b.seen.follow(ctx, s.w.Client.CoreV1().Pods(namespace)); err != nil {
		return nil, err
	}
	// bound is when the API server had answered the create. The pods name their node, so that no
	// scheduler has a part in the time.
	bound := make([]time.Time, n)
	errs := make([]error, n)
	for range n {
		b.names = append(b.names, s.pod())
	}

	var all sync.WaitGroup
	for i, name := range b.names {
		all.Go(func() {
			p := benchPod(name, s.name)
			if change != nil {
				change(i, p)
			}
			_, errs[i] = s.w.Client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
			bound[i] = time.Now()
		})
	}

	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}

	// The watch has kept when each pod was Ready first, so the pods can be waited for in any order.
	first, last := bound[0], time.Time{}
	for i, name := range b.names {
		at, err := b.seen.wait(ctx, "to be Ready", name, isReady)
		if err != nil {
			return nil, err
		}
		b.each[i] = at.Sub(bound[i]).Seconds()
		if bound[i].Before(first) {
			first = bound[i]
		}
		if at.After(last) {
			last = at
		}
	}

	b.all = last.Sub(first).Seconds()
	return b, nil
}

// end deletes the pods and waits until they are gone everywhere. Upstream's kubelet removes sandboxes that have ended
// once a minute; they are removed for it, so that no clean-up runs into the next sample.
// The time counts from the first DELETE until no sandbox is ready, and for ours until none is left.
func (b *batch) end(ctx context.Context) (e ending, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience(len(b.names)))
	defer cancel()
	if err := b.seen.follow(ctx, b.s.w.Client.CoreV1().Pods(namespace)); err != nil {
		return e, err
	}
	began := time.Now()
	errs := make([]error, len(b.names))
	var all sync.WaitGroup
	for i, name := range b.names {
		all.Go(func() { errs[i] = b.s.w.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}) })
	}

	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return e, err
	}

	for _, name := range b.names {
		if _, err := b.seen.wait(ctx, "to be gone", name, isGone); err != nil {
			return e, err
		}
	}

	ready := &cri.PodSandboxFilter{State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY}}
	if err := b.s.without(ctx, ready); err != nil {
		return e, err
	}
	e.stopped = time.Since(began).Seconds()
	if b.s.name == peer {
		return e, b.s.removeAll(ctx)
	}
	err = b.s.without(ctx, nil)

	e.removed = time.Since(began).Seconds()
	return e, err
}

// without waits until the runtime has no such sandbox.
// A nil filter means all sandboxes, those that have ended among them.
func (s *side) without(ctx context.Context, filter *cri.PodSandboxFilter) error {
	return wait.For(ctx, 5*time.Minute, "sandboxes to end", func(ctx context.Context) error {
		list, err := s.w.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: filter})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d sandboxes are there", len(list.Items))
		}
		return err
	})
}

// removeAll removes all sandboxes from the runtime. The kubelet may do the same at that moment, so a refusal is no
// failure as long as they are gone in the end.
func (s *side) removeAll(ctx context.Context) error {
	return wait.For(ctx, 5*time.Minute, "sandboxes to be removed", func(ctx context.Context) error {
		list, err := s.w.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil || len(list.Items) == 0 {
			return err
		}
		errs := []error{fmt.Errorf("%d sandboxes were there", len(list.Items))}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, box := range list.Items {
			all.Go(func() {
				_, err := s.w.Runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: box.Id})
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		all.Wait()
		return errors.Join(errs...)
	})
}

// benchPod is a pod with a grace period of zero that is bound to its node from the start.
func benchPod(name, node string) *v1.Pod {
	zero := int64(0)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: &zero,
			Containers: []v1.Container{{Name: "app", Image: testkit.TestImage, Args: []string{"sleep"}}}}}
}

// watcher keeps what the watch has said of pods.
// Changes are kept with the moment at which they arrived, so that a waiter that comes late still
// learns when it was.
type watcher struct {
	mu   sync.Mutex
	news chan struct{} // closed and replaced at each change
	said map[string][]saying
}

// saying is one state of a pod; nil: it is gone.
// The slice of a pod has its states in the order in which they were seen.
type saying struct {
	at  time.Time
	pod *v1.Pod
}

func newWatcher() *watcher {
	return &watcher{news: make(chan struct{}), said: map[string][]saying{}}
}

// follow watches the pods from now on until ctx ends, and forgets what was said before. The API server ends a watch
// whose reader is slow; then it begins again with what there is.
func (s *watcher) follow(ctx context.Context, pods corev1.PodInterface) error {
	s.mu.Lock()
	s.said = map[string][]saying{}
	s.mu.Unlock()
	events, err := s.again(ctx, pods)
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			for e := range events.ResultChan() {
				if p, ok := e.Object.(*v1.Pod); ok {
					s.note(e.Type, p, time.Now())
				}
			}
			if events, err = s.again(ctx, pods); err != nil {
				return // whoever waits runs into the end of ctx
			}
		}
	}()
	return nil
}

// again notes the pods as they are and watches from there.
// Pods that were known and are not in the list were deleted meanwhile.
func (s *watcher) again(ctx context.Context, pods corev1.PodInterface) (watch.Interface, error) {
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		there[p.Name] = true
		s.note(watch.Modified, p, time.Now())
	}
	// The lock is not held over note, which takes it itself.
	s.mu.Lock()
	var gone []string
	for name := range s.said {
		if !there[name] {
			gone = append(gone, name)
		}
	}
	s.mu.Unlock()
	for _, name := range gone {
		s.note(watch.Deleted, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, time.Now())
	}
	return pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
}

// note appends a state and wakes all that wait.
func (s *watcher) note(kind watch.EventType, p *v1.Pod, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := p.Name
	if kind == watch.Deleted {
		p = nil
	}
	s.said[name] = append(s.said[name], saying{at, p})
	close(s.news)
	s.news = make(chan struct{})
}

// isReady and isGone are questions for watcher.wait. A nil pod is one that was deleted.
func isReady(p *v1.Pod) bool {
	if p == nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func isGone(p *v1.Pod) bool { return p == nil }

// wait returns when the watch first said of a pod that it is so; what names that.
// It ends with an error when ctx does. States from before the call count too.
func (s *watcher) wait(ctx context.Context, what, pod string, so func(*v1.Pod) bool) (time.Time, error) {
	for done := 0; ; {
		s.mu.Lock()
		said, news := s.said[pod], s.news
		s.mu.Unlock()
		for ; done < len(said); done++ {
			if so(said[done].pod) {
				return said[done].at, nil
			}
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for pod %s %s: %w", pod, what, ctx.Err())
		case <-news:
		}
	}
}
