package kubelet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
)

// scarceNode is what a node has left. Each pod uses memory as long as it is listed; what is left is the rest.
type scarceNode struct {
	mu     sync.Mutex
	memory map[string]uint64 // by the name of the pod, in MiB
	disk   uint64            // left of 100
	fails  bool
	asked  int // questions about usage
	// slow is how long a measurement takes; partial says that it is one of a part.
	slow    time.Duration
	partial bool
}

const nodeMemory = 1000 // MiB

func (n *scarceNode) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *scarceNode) Left(context.Context) (evict.Left, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails {
		return evict.Left{}, errors.New("no counters")
	}
	used := uint64(0)
	for _, m := range n.memory {
		used += m
	}
	now := time.Now()
	return evict.Left{Levels: map[string]evict.Level{
		evict.MemoryAvailable: {Left: (nodeMemory - min(nodeMemory, used)) << 20, Whole: nodeMemory << 20, At: now},
		evict.NodeFsAvailable: {Left: n.disk, Whole: 100, At: now}}}, nil
}

func (n *scarceNode) Usage(_ context.Context, pods []pod.View) (map[types.UID]*evict.Usage, error) {
	n.mu.Lock()
	slow := n.slow
	n.asked++
	n.mu.Unlock()
	time.Sleep(slow) // of the bubble
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[types.UID]*evict.Usage{}
	for _, v := range pods {
		used := n.memory[v.Pod.Name] << 20
		out[v.Pod.UID] = &evict.Usage{Memory: &used, Containers: []evict.ContainerUsage{{Name: "app", Memory: &used}},
			Volumes: []evict.VolumeUsage{{Name: "scratch", Bytes: used}}}
	}
	return out, nil
}

func (n *scarceNode) LocalUsage(ctx context.Context, pods []pod.View) (map[types.UID]*evict.Usage, bool) {
	usage, _ := n.Usage(ctx, pods)
	n.mu.Lock()
	defer n.mu.Unlock()
	return usage, !n.partial
}

// inScarceBubble runs a test on a node that evicts pods below 100 MiB of memory and 10 % of disk.
func inScarceBubble(t *testing.T, test func(*fakeNode, *scarceNode)) {
	t.Helper()
	n := &scarceNode{memory: map[string]uint64{}, disk: 50}
	inBubble(t, func(b *fakeNode) { test(b, n) }, func(b *fakeNode) {
		b.meter = meter.New(meter.Options{NodeName: "node"})
		b.pressure = Pressure{Reader: n,
			Desired: evict.Desired{Transition: 30 * time.Second, LocalLimits: true, Thresholds: []evict.Threshold{
				{Signal: evict.MemoryAvailable, Least: evict.Amount{Number: 100 << 20}},
				{Signal: evict.NodeFsAvailable, Least: evict.Amount{Percent: 10}}}}}
	})
}

// condition returns the status of a condition of the node as the API has it.
func (b *fakeNode) condition(kind v1.NodeConditionType) v1.ConditionStatus {
	for _, c := range b.kubelet.node.Object().Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func (b *fakeNode) untilCondition(limit time.Duration, kind v1.NodeConditionType, want v1.ConditionStatus) {
	b.t.Helper()
	b.within(limit, string(kind)+" is not "+string(want), func() error {
		if got := b.condition(kind); got != want {
			return errors.New("it is " + string(got))
		}
		return nil
	})
}

// TestEviction: memory runs out. The pod that uses most above its requests ends within 12 s, with upstream's words,
// and no other; the node says so, refuses pods that asked for nothing meanwhile, and is as before after the transition
// time.
//
// Row 1.13.
func TestEviction(t *testing.T) {
	inScarceBubble(t, func(b *fakeNode, n *scarceNode) {
		for _, name := range []string{"small", "large", "critical"} {
			p := aPod(name, "sleep", "1000")
			if name == "critical" {
				priority := int32(systemCritical)
				p.Spec.Priority = &priority
			}
			b.cluster.create(p)
		}
		b.untilReady(time.Minute, "small", "large", "critical")

		n.set(func() { n.memory = map[string]uint64{"small": 50, "large": 360, "critical": 500} })
		start := time.Now()
		p := b.untilPod(time.Minute, "large", "evicted", phase(v1.PodFailed))
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("the pod was gone after %v", took)
		}
		n.set(func() { delete(n.memory, "large") })
		const message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. Container app was using 360Mi, request is 0, has larger consumption of memory. "
		if p.Status.Reason != "Evicted" || p.Status.Message != message || !disrupted(p) ||
			p.Status.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("status %+v", p.Status)
		}
		b.within(time.Minute, "no event", func() error {
			if !strings.Contains(b.cluster.said("large"),
				"Evicted: "+message+
					"map[offending_containers:app offending_containers_usage:360Mi starved_resource:memory]") {
				return errors.New(b.cluster.said("large"))
			}
			return nil
		})
		b.untilCondition(15*time.Second, v1.NodeMemoryPressure, v1.ConditionTrue)

		b.cluster.create(aPod("late", "sleep", "1000"))
		late := b.untilPod(time.Minute, "late", "refused", phase(v1.PodFailed))
		if late.Status.Reason != "Evicted" ||
			late.Status.Message != "Pod was rejected: The node had condition: [MemoryPressure]. " {
			t.Errorf("a pod that came under pressure: %+v", late.Status)
		}
		b.untilCondition(2*time.Minute, v1.NodeMemoryPressure, v1.ConditionFalse)
		b.cluster.create(aPod("after", "sleep", "1000"))
		b.untilReady(time.Minute, "small", "critical", "after")
		if text := evictionFigures(t, b.meter); !strings.Contains(text,
			`kubelet_evictions{eviction_signal="memory.available"} 1`) ||
			!strings.Contains(text, `kubelet_eviction_stats_age_seconds_count{eviction_signal="memory.available"} 1`) {
			t.Errorf("figures:\n%s", text)
		}
		b.removeAll("small", "large", "critical", "late", "after")
		b.nothingLeft()
	})
}

// TestUnknownIsNotScarce: a node whose figures cannot be read evicts nobody, also from its start, and goes on when
// they can.
//
// Row 1.104.
func TestUnknownIsNotScarce(t *testing.T) {
	inScarceBubble(t, func(b *fakeNode, n *scarceNode) {
		b.cluster.create(aPod("p", "sleep", "1000"))
		b.untilReady(time.Minute, "p")
		n.set(func() { n.fails, n.memory["p"] = true, 950 })
		time.Sleep(time.Minute) // of the bubble
		if p := b.cluster.get("p"); p.Status.Phase != v1.PodRunning ||
			b.condition(v1.NodeMemoryPressure) != v1.ConditionFalse {
			t.Errorf("without figures: %s, pressure %s", statusOf(p), b.condition(v1.NodeMemoryPressure))
		}
		b.restart() // one that cannot read them when it starts either
		b.cluster.create(aPod("q", "sleep", "1000"))
		b.untilReady(time.Minute, "q")
		n.set(func() { n.fails = false })
		b.untilPod(time.Minute, "p", "evicted", phase(v1.PodFailed))
		b.removeAll("p", "q")
	})
}

// TestReclaimFirst: the disk is full. Containers of pods that have ended and images that nobody uses go first, and no
// pod ends if that is enough. The status of the ended pod stays.
func TestReclaimFirst(t *testing.T) {
	n := &scarceNode{memory: map[string]uint64{}, disk: 50}
	inBubble(t, func(b *fakeNode) {
		done := aPod("done", "exit", "0")
		done.Spec.RestartPolicy = v1.RestartPolicyNever
		b.cluster.create(done)
		b.cluster.create(aPod("p", "sleep", "1000"))
		b.untilReady(time.Minute, "p")
		before := b.untilPod(time.Minute, "done", "completed", phase(v1.PodSucceeded))
		time.Sleep(3 * time.Minute) // the image is old enough

		n.set(func() { n.disk = 5 })
		b.within(time.Minute, "the containers of the ended pod are still there", func() error {
			if text := b.runtime.Dump(); strings.Contains(text, "done") {
				return errors.New(text)
			}
			n.set(func() { n.disk = 50 }) // as if that had freed it
			return nil
		})
		b.within(time.Minute, "the unused image is still there", func() error {
			if images := b.runtime.ImageNames(); len(images) != 1 {
				return errors.New(strings.Join(images, " "))
			}
			return nil
		})
		time.Sleep(time.Minute)
		after := b.cluster.get("done")
		if a, z := before.Status.ContainerStatuses[0],
			after.Status.ContainerStatuses[0]; after.Status.Phase != v1.PodSucceeded || a.State.Terminated == nil ||
			z.State.Terminated == nil || a.ContainerID != z.ContainerID {
			t.Errorf("the ended pod: %s", statusOf(after))
		}
		if p := b.cluster.get("p"); p.Status.Phase != v1.PodRunning {
			t.Errorf("a pod had to end: %s", statusOf(p))
		}
		b.removeAll("done", "p")
		b.nothingLeft()
	}, func(b *fakeNode) {
		b.runtime.AddImage("testkit.local/unused:1")
		b.imageGC = true
		b.pressure = Pressure{Reader: n,
			Desired: evict.Desired{Transition: time.Second,
				Thresholds: []evict.Threshold{{Signal: evict.NodeFsAvailable, Least: evict.Amount{Percent: 10}}}}}
	})
}

// TestLocalLimits: a pod whose emptyDir grows above its limit ends, without a condition of the node, and pods without
// limits cost no measuring.
func TestLocalLimits(t *testing.T) {
	inScarceBubble(t, func(b *fakeNode, n *scarceNode) {
		b.cluster.create(aPod("free", "sleep", "1000"))
		b.untilReady(time.Minute, "free")
		n.set(func() { n.memory["free"] = 300 })
		time.Sleep(2 * time.Minute)
		n.set(func() {
			if n.asked != 0 {
				t.Errorf("pods without limits were measured %d times", n.asked)
			}
		})

		limit := resource.MustParse("10Mi")
		p := aPod("sized", "sleep", "1000")
		p.Spec.Volumes = []v1.Volume{{Name: "scratch",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
		b.cluster.create(p)
		b.untilReady(time.Minute, "sized")
		n.set(func() { n.memory["sized"] = 10 })
		time.Sleep(time.Minute)
		n.set(func() { n.memory["sized"] = 11 })
		got := b.untilPod(30*time.Second, "sized", "evicted", phase(v1.PodFailed))
		if got.Status.Reason != "Evicted" ||
			got.Status.Message != `Usage of EmptyDir volume "scratch" exceeds the limit "10Mi". ` || disrupted(got) {
			t.Errorf("status %+v", got.Status)
		}
		if b.condition(v1.NodeDiskPressure) != v1.ConditionFalse ||
			b.cluster.get("free").Status.Phase != v1.PodRunning {
			t.Errorf("disk pressure %s, the other pod %s", b.condition(v1.NodeDiskPressure),
				statusOf(b.cluster.get("free")))
		}
		b.removeAll("free", "sized")
	})
}

// TestLimitsAfterASlowMeasurement: a measurement that took 20 s, as while containers start, or knew a part only, does
// not let a pod fill the disk for minutes: it ends within 35 s of its write, 30 s for the next measurement and one
// round.
func TestLimitsAfterASlowMeasurement(t *testing.T) {
	for name, first := range map[string]func(*scarceNode){
		"slow":    func(n *scarceNode) { n.slow = 20 * time.Second },
		"partial": func(n *scarceNode) { n.slow, n.partial = 2*time.Second, true },
	} {
		t.Run(name, func(t *testing.T) {
			inScarceBubble(t, func(b *fakeNode, n *scarceNode) {
				n.set(func() { first(n) })
				limit := resource.MustParse("1Mi")
				p := aPod("sized", "sleep", "1000")
				p.Spec.Volumes = []v1.Volume{{Name: "scratch",
					VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
				b.cluster.create(p)
				b.untilReady(time.Minute, "sized")

				b.within(time.Minute, "nothing was measured", func() error {
					n.mu.Lock()
					defer n.mu.Unlock()
					if n.asked == 0 {
						return errors.New("not yet")
					}
					return nil
				})

				time.Sleep(20 * time.Second) // of the bubble: it has ended
				n.set(func() { n.slow, n.memory["sized"] = 0, 22 })
				start := time.Now()
				b.untilPod(30*time.Minute, "sized", "evicted", phase(v1.PodFailed))
				if took := time.Since(start); took > 35*time.Second {
					t.Errorf("evicted after %v", took)
				}
				b.removeAll("sized")
			})
		})
	}
}

// TestPreemption: a critical pod for which there is no room begins when another has ended for it.
func TestPreemption(t *testing.T) {
	inScarceBubble(t, func(b *fakeNode, _ *scarceNode) {
		asks := func(name, cpu string, priority int32) *v1.Pod {
			p := aPod(name, "sleep", "1000")
			p.Spec.Priority, p.Status.QOSClass = &priority, v1.PodQOSBurstable
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
			return p
		}
		b.cluster.create(asks("a", "2", 0))
		b.cluster.create(asks("b", "5", 0))
		b.untilReady(time.Minute, "a", "b")
		b.cluster.create(asks("critical", "3", systemCritical))

		victim := b.untilPod(time.Minute, "a", "preempted", phase(v1.PodFailed))
		if victim.Status.Reason != "Preempting" ||
			victim.Status.Message != "Preempted in order to admit critical pod" || !disrupted(victim) {
			t.Errorf("status %+v", victim.Status)
		}
		b.untilReady(time.Minute, "b", "critical")
		b.hasEvents("a", "Preempting: Preempted in order to admit critical pod")
		if text := evictionFigures(t, b.meter); !strings.Contains(text,
			`kubelet_preemptions{preemption_signal="cpu"} 1`) {
			t.Errorf("figures:\n%s", text)
		}
		b.removeAll("a", "b", "critical")
		b.nothingLeft()
	})
}

// evictionFigures returns the figures of a kubelet that have to do with eviction.
func evictionFigures(t *testing.T, m *meter.Meter) string {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	for _, f := range families {
		for _, one := range f.Metric {
			for _, l := range one.Label {
				series := f.GetName() + `{` + l.GetName() + `="` + l.GetValue() + `"} `
				switch {
				case !strings.Contains(f.GetName(), "evict") && !strings.Contains(f.GetName(), "preempt"):
				case one.Counter != nil:
					out.WriteString(series + resource.NewQuantity(int64(one.Counter.GetValue()), resource.DecimalSI).
						String() + "\n")
				case one.Histogram != nil:
					series = strings.Replace(series, "{", "_count{", 1)
					out.WriteString(series + resource.NewQuantity(int64(one.Histogram.GetSampleCount()),
						resource.DecimalSI).String() + "\n")
				}
			}
		}
	}
	return out.String()
}
