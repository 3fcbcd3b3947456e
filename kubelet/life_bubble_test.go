package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

func restarts(n int32) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount >= n
	}
}

func phase(want v1.PodPhase) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return p.Status.Phase == want }
}

func execHook(words ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: append([]string{"/testapp"}, words...)}}
}

func sleepHook(seconds int64) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

// TestRestartPauses: the first restart comes at once, the next ones after 10, 20, 40, 80, 160, 300 and 300 s. The logs
// of older containers are removed with them.
func TestRestartPauses(t *testing.T) {
	var mu sync.Mutex
	var starts []time.Time
	inBubble(t, func(b *fakeNode) {
		b.cluster.create(aPod("pod", "exit", "3"))
		b.untilPod(time.Minute, "pod", "in back-off", func(p *v1.Pod) bool {
			c := p.Status.ContainerStatuses
			return len(c) == 1 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == "CrashLoopBackOff" &&
				c[0].RestartCount == 1 &&
				c[0].LastTerminationState.Terminated.ExitCode == 3
		})

		b.untilPod(20*time.Minute, "pod", "restarted eight times", restarts(8))
		// of the last container, and the one before it
		for _, pattern := range []string{"pods/*/app/*.log", "containers/*.log"} {
			if files, err := filepath.Glob(filepath.Join(b.dir, "log", pattern)); len(files) < 1 || len(files) > 2 ||
				err != nil {
				t.Errorf("logs are left: %v, %v", files, err)
			}
		}

		b.removeAll("pod")
		b.nothingLeft()
		mu.Lock()
		defer mu.Unlock()
		for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
			if pause := starts[i+1].Sub(starts[i]); pause < want*time.Second || pause > (want+1)*time.Second {
				t.Errorf("restart %d came %v after the start before it, want %d s", i+1, pause, want)
			}
		}
	}, func(b *fakeNode) {
		b.runtime.Program = func(c *cri.ContainerConfig) runtimetest.Process {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Now())
			return runtimetest.TestProgram(c)
		}
	})
}

// TestInitContainers: they run one after the other before the rest; with restartPolicy Never a failed one fails the
// pod.
func TestInitContainers(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		good := aPod("good", "sleep")
		good.Spec.InitContainers = []v1.Container{aContainer("first", "sleep", "2"), aContainer("second", "echo")}
		bad := aPod("bad", "sleep")
		bad.Spec.RestartPolicy = v1.RestartPolicyNever
		bad.Spec.InitContainers = []v1.Container{aContainer("first", "exit", "4")}
		b.cluster.create(good)
		b.cluster.create(bad)

		failed := b.untilPod(time.Minute, "bad", "failed", phase(v1.PodFailed))
		if c := failed.Status.ContainerStatuses[0]; c.ContainerID != "" {
			t.Errorf("the container was started: %+v", c)
		}

		b.untilReady(time.Minute, "good")
		p := b.cluster.get("good")
		first, second := p.Status.InitContainerStatuses[0].State.Terminated,
			p.Status.InitContainerStatuses[1].State.Terminated
		if second.StartedAt.Before(&first.FinishedAt) ||
			p.Status.ContainerStatuses[0].State.Running.StartedAt.Before(&second.FinishedAt) {
			t.Errorf("not one after the other: %s", statusOf(p))
		}
		b.removeAll("good", "bad")
		b.nothingLeft()
	})
}

// TestSidecar: it runs before and beside the app, ends after it, and does not decide how the pod ends.
func TestSidecar(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		p := aPod("side", "sleep", "2")
		always := v1.ContainerRestartPolicyAlways
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		side := aContainer("proxy", "sleep")
		side.RestartPolicy = &always
		p.Spec.InitContainers = []v1.Container{side}
		b.cluster.create(p)
		done := b.untilPod(time.Minute, "side", "succeeded", phase(v1.PodSucceeded))
		c, app := done.Status.InitContainerStatuses[0], done.Status.ContainerStatuses[0].State.Terminated
		if c.State.Terminated == nil || app == nil || c.RestartCount != 0 ||
			c.State.Terminated.StartedAt.After(app.StartedAt.Time) ||
			c.State.Terminated.FinishedAt.Time.Before(app.FinishedAt.Time) {
			t.Errorf("sidecar %+v, app %+v", c, app)
		}
		b.removeAll("side")
		b.nothingLeft()
	})
}

// TestSidecarsPreStop: the hooks of sidecars run at the same time, though the sidecars end one after the other.
func TestSidecarsPreStop(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		p := aPod("side", "sleep", "2")
		always := v1.ContainerRestartPolicyAlways
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		for _, name := range []string{"first", "second"} {
			side := aContainer(name, "sleep")
			side.RestartPolicy, side.Lifecycle = &always, &v1.Lifecycle{PreStop: sleepHook(3)}
			p.Spec.InitContainers = append(p.Spec.InitContainers, side)
		}
		b.cluster.create(p)
		done := b.untilPod(time.Minute, "side", "succeeded", phase(v1.PodSucceeded))
		side, app := done.Status.InitContainerStatuses, done.Status.ContainerStatuses[0].State.Terminated.FinishedAt
		first, second := side[0].State.Terminated.FinishedAt, side[1].State.Terminated.FinishedAt
		if first.Before(&second) || second.Sub(app.Time) < 3*time.Second || first.Sub(app.Time) >= 6*time.Second {
			t.Errorf("the app ended at %v, the second sidecar at %v, the first at %v: want both hooks of 3 s at once",
				app, second, first)
		}
		b.removeAll("side")
		b.nothingLeft()
	})
}

// TestPostStart: while the hook runs the container does not count as started and the next one waits; a container whose
// hook fails is restarted.
func TestPostStart(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		p := aPod("slow", "sleep")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: sleepHook(3)}
		p.Spec.Containers = append(p.Spec.Containers, aContainer("second", "sleep"))
		bad := aPod("bad", "sleep")
		bad.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("exit", "3")}

		b.cluster.create(p)
		b.cluster.create(bad)
		b.untilReady(time.Minute, "slow")
		c := b.cluster.get("slow").Status.ContainerStatuses
		if d := c[1].State.Running.StartedAt.Sub(c[0].State.Running.StartedAt.Time); d < 3*time.Second {
			t.Errorf("the second container started %v after the first, whose hook takes 3 s", d)
		}

		b.untilPod(time.Minute, "bad", "in back-off", func(p *v1.Pod) bool {
			c := p.Status.ContainerStatuses
			return len(c) == 1 && c[0].RestartCount > 0 && c[0].State.Waiting != nil &&
				c[0].State.Waiting.Reason == "CrashLoopBackOff"
		})
		b.hasEvents("bad", "FailedPostStartHook: PostStartHook failed", "Killing: FailedPostStartHook")
		b.removeAll("slow", "bad")
		b.nothingLeft()
	})
}

// TestPreStop: the hook runs before the container is told to stop, within the grace period, once; it ends with its
// container, and a second deletion with less time cuts both short.
func TestPreStop(t *testing.T) {
	for _, c := range []struct {
		name          string
		grace, second int64 // of the deletions; second 0 is none
		hook          *v1.LifecycleHandler
		args          []string
		least, most   time.Duration
	}{
		{"short hook", 60, 0, execHook("sleep", "3"), []string{"sleep"}, 3 * time.Second, 6 * time.Second},
		{"hook that fails", 60, 0, execHook("exit", "1"), []string{"sleep"}, 0, 3 * time.Second},
		{"hook longer than the grace period", 10, 0, sleepHook(45), []string{"sleep"}, 10 * time.Second,
			14 * time.Second},
		{"container that ends before its hook", 60, 0, sleepHook(40), []string{"sleep", "4"}, 0, 6 * time.Second},
		{"less time the second time", 50, 2, sleepHook(45), []string{"sleep"}, 2 * time.Second, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(b *fakeNode) {

				p := aPod("pod", c.args...)
				p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = v1.RestartPolicyNever, &c.grace
				p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: c.hook}
				b.cluster.create(p)
				b.untilReady(time.Minute, "pod")

				began := time.Now()
				b.removeAll("pod")
				if c.second > 0 {
					time.Sleep(time.Second)
					b.cluster.remove("pod", c.second)
				}
				b.untilGone(2*time.Minute, "pod")
				if d := time.Since(began); d < c.least || d > c.most {
					t.Errorf("gone after %v, want %v to %v", d, c.least, c.most)
				}
				b.hasEvents("pod", "Killing: Stopping container app")
				if c.hook.Exec != nil && b.runtime.Count("ExecSync") != 1 {
					t.Errorf("the hook ran %d times", b.runtime.Count("ExecSync"))
				}
				b.nothingLeft()
			})
		})
	}
}

// TestLiveness: a container that its probe gives up is stopped with the probe's own grace and runs again.
func TestLiveness(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		p := aPod("pod", "sleep")
		long, short := int64(120), int64(1)
		p.Spec.TerminationGracePeriodSeconds = &long
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: sleepHook(100)}
		p.Spec.Containers[0].LivenessProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 2, SuccessThreshold: 1,
			TimeoutSeconds: 1, TerminationGracePeriodSeconds: &short,
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/testapp", "exit", "1"}}}}
		b.cluster.create(p)
		b.untilPod(30*time.Second, "pod", "restarted", restarts(1))
		b.hasEvents("pod", "Unhealthy: Liveness probe failed: ",
			"Killing: Container app failed liveness probe, will be restarted")
		b.cluster.remove("pod", 0)
		b.nothingLeft()
	})
}

// TestDeadline: a pod that is longer active than it may be fails, also when it was given the deadline while it ran.
func TestDeadline(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		p := aPod("pod", "sleep")
		long, short := int64(300), int64(30)
		p.Spec.ActiveDeadlineSeconds = &long
		b.cluster.create(p)
		b.untilReady(20*time.Second, "pod")
		b.cluster.update("pod", func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = &short })
		done := b.untilPod(time.Minute, "pod", "failed", phase(v1.PodFailed))
		if done.Status.Reason != "DeadlineExceeded" || done.Status.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("it is %s", statusOf(done))
		}
		b.hasEvents("pod", "DeadlineExceeded: Pod was active on the node longer than the specified deadline")
		b.removeAll("pod")
		b.nothingLeft()
	})
}

// TestNewImage: the container runs again with the image that the pod now names.
func TestNewImage(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		b.cluster.create(aPod("pod", "sleep"))
		b.untilReady(time.Minute, "pod")
		b.cluster.update("pod", func(p *v1.Pod) { p.Spec.Containers[0].Image = "registry.local/new:1" })
		b.untilPod(time.Minute, "pod", "new", func(p *v1.Pod) bool {
			c := p.Status.ContainerStatuses[0]
			return isReady(&p.Status) && c.RestartCount == 1 && c.Image == "registry.local/new:1" &&
				p.Status.ObservedGeneration == p.Generation
		})
		b.hasEvents("pod", "Killing: Container app definition changed, will be restarted")
		b.removeAll("pod")
		b.nothingLeft()
	})
}

// TestForeignPhase: a pod that another client calls Failed ends.
func TestForeignPhase(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		b.cluster.create(aPod("pod", "sleep"))
		b.untilReady(time.Minute, "pod")
		b.cluster.update("pod", func(p *v1.Pod) {
			p.Status.Phase = v1.PodFailed
			p.Status.Conditions = append(p.Status.Conditions,
				v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "Test"})
		})
		done := b.untilPod(time.Minute, "pod", "ended", func(p *v1.Pod) bool {
			return p.Status.Phase == v1.PodFailed && p.Status.ContainerStatuses[0].State.Terminated != nil
		})
		if !slices.ContainsFunc(done.Status.Conditions,
			func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget }) {
			t.Errorf("DisruptionTarget was dropped: %s", statusOf(done))
		}
		b.removeAll("pod")
		b.nothingLeft()
	})
}

// guaranteed are the resources of a Guaranteed pod's only container.
func guaranteed(cpu, memory string) v1.ResourceRequirements {
	l := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	return v1.ResourceRequirements{Requests: l, Limits: l}
}

func (b *fakeNode) resize(name string, to v1.ResourceRequirements) {
	b.cluster.update(name, func(p *v1.Pod) { p.Spec.Containers[0].Resources = to })
}

// resizedTo reports whether a resize is over and the container has these resources.
func resizedTo(want v1.ResourceRequirements) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return false
			}
		}
		s := p.Status.ContainerStatuses[0]
		return isReady(&p.Status) && s.Resources != nil && equality.Semantic.DeepEqual(*s.Resources, want) &&
			equality.Semantic.DeepEqual(s.AllocatedResources, want.Requests)
	}
}

// TestResizeInPlace: a running pod gets other limits without a restart where its policy says so, and with one where
// not. What does not fit waits, also across a kubelet that dies. The calls to the runtime may fail.
func TestResizeInPlace(t *testing.T) {
	for name, fault := range map[string]func(runtimetest.Call) runtimetest.Outcome{"works": nil,
		"updates fail":          firstCalls("UpdateContainerResources", 2, runtimetest.Fail),
		"updates work and fail": firstCalls("UpdateContainerResources", 2, runtimetest.DoThenFail)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *fakeNode) {
				p := aPod("pod", "sleep")
				p.Spec.Containers[0].Resources = guaranteed("1", "32Mi")
				p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory,
					RestartPolicy: v1.RestartContainer}}
				p.Status.QOSClass = v1.PodQOSGuaranteed
				b.cluster.create(p)
				b.untilReady(time.Minute, "pod")
				before := b.runningOnce("pod")
				b.resize("pod", guaranteed("2", "32Mi"))
				b.untilPod(time.Minute, "pod", "resized", resizedTo(guaranteed("2", "32Mi")))
				b.untouched(before)

				holder := aPod("holder", "sleep")
				holder.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
				b.cluster.create(holder)
				b.untilReady(time.Minute, "holder")
				b.resize("pod", guaranteed("5", "32Mi"))
				deferred := func(p *v1.Pod) bool {
					return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
						return c.Type == v1.PodResizePending && c.Reason == v1.PodReasonDeferred &&
							c.ObservedGeneration == p.Generation
					})
				}
				b.untilPod(time.Minute, "pod", "deferred", deferred)
				b.restart()
				time.Sleep(20 * time.Second)
				now := b.untilPod(time.Minute, "pod", "deferred", deferred)
				if s := now.Status.ContainerStatuses[0]; !equality.Semantic.DeepEqual(s.AllocatedResources,
					guaranteed("2", "32Mi").Requests) {
					t.Errorf("under a new kubelet: %+v", s)
				}
				b.cluster.remove("holder", 0)
				b.untilPod(time.Minute, "pod", "resized", resizedTo(guaranteed("5", "32Mi")))
				b.untouched(before)

				b.kill() // while it is away, the user asks for something that needs a restart
				b.resize("pod", guaranteed("1", "48Mi"))
				b.start()
				b.untilPod(time.Minute, "pod", "resized",
					func(p *v1.Pod) bool { return resizedTo(guaranteed("1", "48Mi"))(p) && restarts(1)(p) })
				b.runningOnce("pod")
				b.removeAll("pod")
				b.nothingLeft()
			}, func(b *fakeNode) { b.runtime.Fault = fault })
		})
	}
}

// TestResizeWhole: the resources of a pod as a whole change while no container is touched, also under a kubelet that
// comes after; a running init container gets what it asks for too.
func TestResizeWhole(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		has := func(cpu string) func(*v1.Pod) bool {
			return func(p *v1.Pod) bool {
				want := guaranteed(cpu, "64Mi")
				return p.Status.Resources != nil && equality.Semantic.DeepEqual(*p.Status.Resources, want) &&
					equality.Semantic.DeepEqual(p.Status.AllocatedResources, want.Requests) &&
					!slices.ContainsFunc(p.Status.Conditions,
						func(c v1.PodCondition) bool {
							return c.Type == v1.PodResizeInProgress || c.Type == v1.PodResizePending
						})
			}
		}
		change := func(cpu string) func(*v1.Pod) {
			return func(p *v1.Pod) { r := guaranteed(cpu, "64Mi"); p.Spec.Resources = &r }
		}
		p := aPod("pod", "sleep")
		change("1")(p)
		p.Status.QOSClass = v1.PodQOSGuaranteed
		b.cluster.create(p)
		b.untilReady(time.Minute, "pod")
		b.untilPod(time.Minute, "pod", "allocated", has("1"))
		before := b.runningOnce("pod")
		b.cluster.update("pod", change("2"))
		b.untilPod(time.Minute, "pod", "resized", has("2"))
		b.untouched(before)
		b.kill()
		b.cluster.update("pod", change("3"))
		b.start()
		b.untilPod(time.Minute, "pod", "resized again", has("3"))
		b.untouched(before)
		b.removeAll("pod")

		p = aPod("init", "sleep")
		p.Spec.InitContainers = []v1.Container{*p.Spec.Containers[0].DeepCopy()}
		p.Spec.InitContainers[0].Name = "first"
		p.Spec.InitContainers[0].Resources = guaranteed("1", "32Mi")
		b.cluster.create(p)
		first := func(cpu string) func(*v1.Pod) bool {
			return func(p *v1.Pod) bool {
				l := p.Status.InitContainerStatuses
				return len(l) == 1 && l[0].State.Running != nil && l[0].Resources != nil &&
					equality.Semantic.DeepEqual(*l[0].Resources, guaranteed(cpu, "32Mi"))
			}
		}
		b.untilPod(time.Minute, "init", "running its init container", first("1"))
		b.cluster.update("init", func(p *v1.Pod) { p.Spec.InitContainers[0].Resources = guaranteed("2", "32Mi") })
		b.untilPod(time.Minute, "init", "resized", first("2"))
		b.removeAll("init")
		b.nothingLeft()
	})
}

// fakeSource is a source of static pods that a test changes.
type fakeSource struct{ set chan []*v1.Pod }

// Run delivers what the test sets.
func (s fakeSource) Run(ctx context.Context, deliver func([]*v1.Pod), _ func(string, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case pods := <-s.set:
			deliver(pods)
		}
	}
}

// webPod is a pod as package static makes it of a file.
func webPod(name string, args ...string) *v1.Pod {
	p := aPod(name+"-node", args...)
	p.UID = types.UID(name + "-static")
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": string(p.UID)}
	p.Status.QOSClass = v1.PodQOSBestEffort
	return p
}

// TestStaticPod: it runs and has a mirror with its status; a deleted mirror comes back, a new kubelet restarts
// nothing, and both end with the file. One call in ten fails.
func TestStaticPod(t *testing.T) {
	source := fakeSource{}
	inBubble(t, func(b *fakeNode) {
		const name = "web-node"
		source.set <- []*v1.Pod{webPod("web", "sleep")}
		b.untilReady(2*time.Minute, name)
		before := b.runningOnce(name)
		mirror := b.cluster.get(name).UID
		b.cluster.remove(name, 0)
		b.untilPod(2*time.Minute, name, "mirrored again",
			func(p *v1.Pod) bool { return p.UID != mirror && isReady(&p.Status) })
		b.untouched(before)

		b.kill()
		b.start()
		source.set <- []*v1.Pod{webPod("web", "sleep")}
		time.Sleep(time.Minute)
		b.untilReady(2*time.Minute, name)
		b.untouched(before)

		mirror = b.cluster.get(name).UID
		source.set <- nil
		source.set <- []*v1.Pod{webPod("web", "sleep")} // its manifest was taken out and put back
		b.untilPod(2*time.Minute, name, "started anew", func(p *v1.Pod) bool {
			return p.UID != mirror && isReady(&p.Status) && p.Status.ContainerStatuses[0].RestartCount == 1
		})

		source.set <- nil
		b.untilGone(2*time.Minute, name)
		b.nothingLeft()
	}, faulty(3), func(b *fakeNode) {
		source.set = make(chan []*v1.Pod)
		b.static = []StaticSource{source}
	})
}

// TestManyPodsAtOnce: a hundred pods at once become Ready, and the limit of the node holds.
func TestManyPodsAtOnce(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		names := b.create("pod", 110)
		b.untilReady(time.Minute, names...)
		b.cluster.create(aPod("one-more", "sleep"))
		over := b.untilPod(time.Minute, "one-more", "rejected", phase(v1.PodFailed))
		if over.Status.Reason != "OutOfpods" {
			t.Errorf("the pod over the limit is %s", statusOf(over))
		}
		b.removeAll(append(names, "one-more")...)
		b.untilGone(2*time.Minute, names...)
		b.nothingLeft()
		if calls := b.runtime.Count("RunPodSandbox"); calls != 110 {
			t.Error(fmt.Sprint(calls, " sandboxes were made"))
		}
	})
}

// TestMountThatBecameALink: a sub path became a link while a container started, so that it may have something else of
// the node. The container is stopped at once, an event says why, and the next attempt counts.
func TestMountThatBecameALink(t *testing.T) {
	var mu sync.Mutex
	left := 1
	inBubble(t, func(b *fakeNode) {
		b.cluster.create(aPod("pod", "sleep", "1000"))
		b.untilPod(2*time.Minute, "pod", "started again", restarts(1)) // it may have been ready for a moment
		b.untilReady(time.Minute, "pod")
		b.hasEvents("pod", "Failed: Error: a sub path became a link")
		b.removeAll("pod")
		b.nothingLeft()
	}, func(b *fakeNode) {
		b.planted = func() error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left >= 0 {
				return errors.New("a sub path became a link")
			}
			return nil
		}
	})
	if left >= 0 {
		t.Error("the mounts were never looked at after a start")
	}
}
