package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
)

const namespace = "bench"

// sizes of batches: how many pods at once, how often, and the target for all of them.
type size struct {
	pods, rounds int
	target       float64
}

// benchKubelet measures bind to Ready with our kubelet and with upstream's, one after the other on the same containerd,
// and the same CRI calls without a kubelet.
func benchKubelet(ctx context.Context, o options) (err error) {
	w, err := testkit.NewWorld(ctx, testkit.Options{Bin: o.bin, Prefix: "phb", Nodes: []string{"ours", "upstream"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.SaveLogs(o.logs), w.Close()) }()
	if err := w.Namespace(ctx, namespace); err != nil {
		return err
	}
	sizes := []size{{1, o.rounds, 0.30}, {10, max(1, o.rounds/3), 1.2}}
	if o.fifty {
		sizes = append(sizes, size{50, 2, 0})
	}
	// Several passes over all, so that other work on the machine hits each of them alike.
	const passes = 3
	results := map[string][]result{}
	for pass := range passes {
		for _, name := range []string{"floor", "ours", "upstream"} {
			if err := measure(ctx, w, name, share(sizes, pass, passes), results); err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, w.Logs(3000))
			}
		}
	}
	for i, s := range sizes {
		report(s, results["floor"][i], results["ours"][i], results["upstream"][i])
	}
	return nil
}

// share is the part of the rounds that one of the passes does.
func share(sizes []size, pass, passes int) []size {
	out := slices.Clone(sizes)
	for i := range out {
		out[i].rounds = (out[i].rounds + passes - 1 - pass) / passes
	}
	return out
}

// result of one batch size: the time until all pods of a batch were Ready, and of every pod; and the processor seconds,
// from the making to the end of all pods, of the kubelet and of what it keeps busy.
type result struct {
	all, each                   []float64
	cpu, cpuControl, cpuRuntime float64
}

func measure(ctx context.Context, w *testkit.World, name string, sizes []size, results map[string][]result) error {
	batch := bareBatch(w)
	kubelet := (*testkit.Process)(nil)
	if name != "floor" {
		k, err := w.StartKubelet(ctx, name, name == "upstream")
		if err != nil {
			return err
		}
		defer k.Stop()
		batch, kubelet = podBatch(w, name), k
	}
	if _, _, err := batch(ctx, 1); err != nil { // the first one pays for caches
		return err
	}
	if results[name] == nil {
		results[name] = make([]result, len(sizes))
	}
	for i, s := range sizes {
		say("%s: %d × %d at once", name, s.rounds, s.pods)
		r := &results[name][i]
		began := usage(w, kubelet)
		for range s.rounds {
			each, all, err := batch(ctx, s.pods)
			if err != nil {
				return err
			}
			r.all = append(r.all, round(all))
			for _, x := range each {
				r.each = append(r.each, round(x))
			}
		}
		ended := usage(w, kubelet)
		r.cpu, r.cpuControl, r.cpuRuntime = r.cpu+ended[0]-began[0], r.cpuControl+ended[1]-began[1], r.cpuRuntime+ended[2]-began[2]
	}
	return nil
}

// usage of processor time by the kubelet, the control plane and containerd.
func usage(w *testkit.World, kubelet *testkit.Process) (out [3]float64) {
	if kubelet != nil {
		out[0] = kubelet.CPU()
	}
	out[1], out[2] = w.Process("controlplane").CPU(), w.Process("containerd").CPU()
	return out
}

func report(s size, floor, ours, peer result) {
	f := figure{Name: "kubelet-bind-to-ready-1", Unit: "s", PeerIs: "upstream kubelet v1.36.3", Target: s.target,
		Note: "median; floor: RunPodSandbox, CreateContainer, StartContainer, ContainerStatus without a kubelet"}
	if s.pods > 1 {
		f.Name = fmt.Sprintf("kubelet-bind-to-ready-%d-at-once", s.pods)
		f.Note = "median over batches of the time from the first bind until the last pod is Ready"
	}
	o, p, b := median(ours.all), median(peer.all), median(floor.all)
	f.Ours, f.Peer, f.Floor = o, p, b
	f.Ratio, f.OfFloor = round(o/p), round(o/b)
	f.Samples = map[string][]float64{"ours": ours.all, "peer": peer.all, "floor": floor.all}
	if s.pods > 1 {
		f.Samples["oursEachPod"], f.Samples["peerEachPod"], f.Samples["floorEachPod"] = ours.each, peer.each, floor.each
	}
	print(f)
	cpu := func(r result) map[string]float64 {
		pods := float64(len(r.all) * s.pods)
		return map[string]float64{"kubelet": round(r.cpu / pods), "controlPlane": round(r.cpuControl / pods), "containerd": round(r.cpuRuntime / pods)}
	}
	print(figure{Name: fmt.Sprintf("kubelet-cpu-per-pod-%d-at-once", s.pods), Unit: "s", PeerIs: f.PeerIs, Ours: cpu(ours), Peer: cpu(peer),
		Floor: cpu(floor), Ratio: round(ours.cpu / peer.cpu), Note: "processor time from making to end of a pod"})
}

// podBatch makes pods that are bound to the node and waits for the watch to say that they are Ready.
func podBatch(w *testkit.World, node string) func(context.Context, int) ([]float64, float64, error) {
	serial := int(time.Now().Unix() % 1e6) // names do not come again in the next pass
	return func(ctx context.Context, n int) ([]float64, float64, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		serial++
		seen := newWatcher()
		if err := seen.follow(ctx, w); err != nil {
			return nil, 0, err
		}
		bound := make([]time.Time, n)
		errs := make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				_, errs[i] = w.Client.CoreV1().Pods(namespace).Create(ctx, benchPod(podName(node, serial, i), node), metav1.CreateOptions{})
				bound[i] = time.Now()
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, 0, err
		}
		first, last := bound[0], time.Time{}
		each := make([]float64, n)
		for i := range n {
			at, err := seen.wait(ctx, seen.ready, podName(node, serial, i))
			if err != nil {
				return nil, 0, err
			}
			each[i] = at.Sub(bound[i]).Seconds()
			if bound[i].Before(first) {
				first = bound[i]
			}
			if at.After(last) {
				last = at
			}
		}
		for i := range n {
			if err := w.Client.CoreV1().Pods(namespace).Delete(ctx, podName(node, serial, i), metav1.DeleteOptions{}); err != nil {
				return nil, 0, err
			}
		}
		for i := range n {
			if _, err := seen.wait(ctx, seen.gone, podName(node, serial, i)); err != nil {
				return nil, 0, err
			}
		}
		return each, last.Sub(first).Seconds(), empty(ctx, w, node == "upstream")
	}
}

func podName(node string, serial, i int) string { return fmt.Sprintf("%s-%d-%d", node, serial, i) }

func benchPod(name, node string) *v1.Pod {
	zero := int64(0)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: &zero,
		Containers: []v1.Container{{Name: "app", Image: testkit.TestImage, Args: []string{"sleep"}}}}}
}

// empty waits until containerd has no sandbox any more, so that no clean-up runs into the next sample. Upstream's kubelet
// removes sandboxes that have ended once a minute; with help they are removed at once.
func empty(ctx context.Context, w *testkit.World, help bool) error {
	return testkit.Until(ctx, time.Minute, "pods to end", func(ctx context.Context) error {
		list, err := w.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil || len(list.Items) == 0 {
			return err
		}
		for _, s := range list.Items {
			if s.State == cri.PodSandboxState_SANDBOX_READY {
				return fmt.Errorf("sandbox %s runs", s.GetMetadata().GetName())
			}
		}
		if help {
			return w.RemovePods()
		}
		return fmt.Errorf("%d sandboxes are there", len(list.Items))
	})
}

// watcher notes when pods are seen Ready and when they are gone.
type watcher struct {
	mu          sync.Mutex
	news        chan struct{} // closed and replaced at each change
	ready, gone map[string]time.Time
}

func newWatcher() *watcher {
	return &watcher{news: make(chan struct{}), ready: map[string]time.Time{}, gone: map[string]time.Time{}}
}

func (s *watcher) follow(ctx context.Context, w *testkit.World) error {
	list, err := w.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events, err := w.Client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	go func() {
		for e := range events.ResultChan() {
			if p, ok := e.Object.(*v1.Pod); ok {
				s.note(e.Type, p, time.Now())
			}
		}
	}()
	return nil
}

func (s *watcher) note(kind watch.EventType, p *v1.Pod, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.ready[p.Name]; !known && isReady(p) {
		s.ready[p.Name] = at
	}
	if kind == watch.Deleted {
		s.gone[p.Name] = at
	}
	close(s.news)
	s.news = make(chan struct{})
}

func isReady(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func (s *watcher) wait(ctx context.Context, table map[string]time.Time, pod string) (time.Time, error) {
	for {
		s.mu.Lock()
		at, ok := table[pod]
		news := s.news
		s.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("pod %s: %w", pod, ctx.Err())
		case <-news:
		}
	}
}
