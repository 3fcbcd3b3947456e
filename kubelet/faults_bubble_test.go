package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// firstCalls is a fault of the first n calls of a method.
func firstCalls(method string, n int32, how runtimetest.Outcome) func(runtimetest.Call) runtimetest.Outcome {
	var seen atomic.Int32
	return func(c runtimetest.Call) runtimetest.Outcome {
		if c.Method == method && seen.Add(1) <= n {
			return how
		}
		return runtimetest.Work
	}
}

// TestFailedCalls: each call of a pod's life may fail three times, before or after it was carried out, and with the
// events that tell what was done or without. The pod becomes Ready with one container, and nothing is left of it.
func TestFailedCalls(t *testing.T) {
	for _, method := range []string{"RunPodSandbox", "PodSandboxStatus", "CreateContainer", "StartContainer",
		"ContainerStatus", "StopContainer", "RemoveContainer",
		"StopPodSandbox", "RemovePodSandbox", "ImageStatus", "ListPodSandbox", "ListContainers", "GetContainerEvents",
		"Version", "Status"} {
		for _, c := range []struct {
			name   string
			how    runtimetest.Outcome
			events bool
		}{{"fails", runtimetest.Fail, true}, {"works and fails", runtimetest.DoThenFail,
			true}, {"works and fails without events", runtimetest.DoThenFail, false}} {
			t.Run(method+" "+c.name, func(t *testing.T) {
				inBubble(t, func(b *fakeNode) {
					names := b.create("pod", 1)
					b.untilReady(time.Minute, names...)
					b.runningOnce(names...)
					b.removeAll(names...)
					b.untilGone(time.Minute, names...)
					b.nothingLeft()
				}, func(b *fakeNode) {
					b.runtime.Fault = firstCalls(method, 3, c.how)
					b.runtime.LoseEvent = func(*criEvent) bool { return !c.events }
				})
			})
		}
	}
}

// TestHangingCallsDelayNobody: the runtime does not answer about two pods, one that runs and one that is to start.
// Others start and end as fast as before, also under a new kubelet. When the runtime answers again, nothing is left
// undone.
func TestHangingCallsDelayNobody(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		b.cluster.create(aPod("stuck", "sleep"))
		b.untilReady(time.Minute, "stuck")
		before := b.batch("before")
		b.runtime.SetFault(func(c runtimetest.Call) runtimetest.Outcome {
			if c.PodName == "stuck" || c.PodName == "held" || strings.HasPrefix(c.Pod, "stuck-") ||
				strings.HasPrefix(c.Pod, "held-") {
				return runtimetest.Hang
			}
			return runtimetest.Work
		})

		b.cluster.create(aPod("held", "sleep"))
		b.removeAll("stuck")
		during := b.batch("during")
		b.restart()
		after := b.batch("after")
		for what, d := range map[string]time.Duration{"while calls hang": during, "under a new kubelet": after} {
			if d > before+2*time.Second {
				t.Errorf("ten pods took %v %s, and %v before", d, what, before)
			}
		}

		if p := b.cluster.get("held"); isReady(&p.Status) || b.cluster.get("stuck") == nil {
			t.Errorf("the pods whose calls hang: held is %s", statusOf(p))
		}
		b.runtime.SetFault(nil)
		b.untilReady(time.Minute, "held")
		b.untilGone(time.Minute, "stuck")
		b.removeAll("held")
		b.nothingLeft()
	})
}

// batch makes ten pods, deletes them when all are Ready, and returns how long both took together.
func (b *fakeNode) batch(prefix string) time.Duration {
	b.t.Helper()
	began := time.Now()
	names := b.create(prefix, 10)
	b.untilReady(time.Minute, names...)
	b.removeAll(names...)
	b.untilGone(time.Minute, names...)
	return time.Since(began)
}

// TestLostEvents: without a single event pods start and end, and a container that has ended is noticed by the next
// full check.
func TestLostEvents(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		names := b.create("pod", 5)
		b.untilReady(time.Minute, names...)
		before := b.runningOnce(names...)
		b.runtime.Crash(before["pod-0"].id, 3)
		b.untilPod(fullCheckPeriod+time.Minute, "pod-0", "restarted",
			func(p *v1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount == 1 })
		delete(before, "pod-0")
		b.untouched(before)
		b.removeAll(names...)
		b.nothingLeft()
	}, func(b *fakeNode) { b.runtime.LoseEvent = func(*criEvent) bool { return true } })
}

// TestRuntimeAway: while the runtime does not answer, containers go on, the node is not ready after half a minute, and
// pods wait. All come up when it is back.
func TestRuntimeAway(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		running := b.create("running", 5)
		b.untilReady(time.Minute, running...)
		before := b.runningOnce(running...)
		b.create("starting", 5)
		time.Sleep(100 * time.Millisecond) // sandboxes are being made

		b.runtime.Away()
		later := b.create("later", 5)
		b.within(2*time.Minute, "the node is still ready", func() error { return b.nodeIs(v1.ConditionFalse) })
		b.runtime.Crash(before["running-0"].id, 1)
		time.Sleep(time.Minute)

		b.runtime.Back()
		b.untilReady(2*time.Minute,
			append(append(later, running...), "starting-0", "starting-1", "starting-2", "starting-3", "starting-4")...)
		b.within(time.Minute, "the node is not ready", func() error { return b.nodeIs(v1.ConditionTrue) })
		if now := b.runningOnce("running-0")["running-0"]; now.restarts != 1 {
			t.Errorf("the container that ended meanwhile was restarted %d times", now.restarts)
		}
		delete(before, "running-0")
		b.untouched(before)

		for _, p := range b.cluster.list() {
			b.runningOnce(p.Name)
			b.removeAll(p.Name)
		}
		b.nothingLeft()
	})
}

// nodeIs checks the Ready condition of the node in the API.
func (b *fakeNode) nodeIs(want v1.ConditionStatus) error {
	n, err := b.cluster.client().GetNode(context.Background())
	if err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status != want {
			return fmt.Errorf("its condition is %s: %s", c.Status, c.Message)
		}
	}
	return nil
}

// TestRuntimeForgets: a runtime that lost its state gets all pods again, by the full check after which what it had is
// old enough to count as gone.
func TestRuntimeForgets(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		names := b.create("pod", 10)
		b.untilReady(time.Minute, names...)
		b.runtime.Vanish()
		b.within(2*fullCheckPeriod+time.Minute, "not all pods run again", func() error {
			if n := len(b.runtime.Running()); n != len(names) {
				return fmt.Errorf("%d run, for example %s", n, statusOf(b.cluster.get("pod-0")))
			}
			return nil
		})
		b.untilReady(time.Minute, names...)
		b.runningOnce(names...)
		b.removeAll(names...)
		b.nothingLeft()
	})
}

// TestSandboxDies: a pod whose sandbox has died gets a new one, and its container runs in it.
func TestSandboxDies(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		b.cluster.create(aPod("pod", "sleep"))
		b.untilReady(time.Minute, "pod")
		old := ""
		for _, v := range b.kubelet.View() {
			old = v.SandboxID
		}
		if !b.runtime.CrashSandbox(old) {
			t.Fatalf("the view names the sandbox %q", old)
		}
		b.untilPod(time.Minute, "pod", "restarted", func(p *v1.Pod) bool {
			return isReady(&p.Status) && p.Status.ContainerStatuses[0].RestartCount == 1
		})
		b.runningOnce("pod")
		b.removeAll("pod")
		b.nothingLeft()
	})
}

// TestServerAway: while the API server refuses every call, pods go on and restart; afterwards their status is right.
func TestServerAway(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		names := b.create("pod", 5)
		b.untilReady(time.Minute, names...)
		before := b.runningOnce(names...)
		b.cluster.setFault(func(string) error { return errAway })
		b.runtime.Crash(before["pod-0"].id, 3)
		time.Sleep(2 * time.Minute)
		if n := len(b.runtime.Running()["pod-0/app"]); n != 1 {
			t.Errorf("%d containers of the pod that crashed run", n)
		}

		b.cluster.setFault(nil)
		b.untilPod(2*time.Minute, "pod-0", "restarted", func(p *v1.Pod) bool {
			return isReady(&p.Status) && p.Status.ContainerStatuses[0].RestartCount == 1
		})
		delete(before, "pod-0")
		b.untouched(before)
		b.removeAll(names...)
		b.nothingLeft()
	})
}

// TestImageFailures: an image that cannot be pulled is waited for with growing pauses, and its pod starts once it can.
func TestImageFailures(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	inBubble(t, func(b *fakeNode) {
		p := aPod("pod", "sleep")
		p.Spec.Containers[0].Image = "registry.local/app:2"
		b.cluster.create(p)
		waiting := func(reason string) func(*v1.Pod) bool {
			return func(p *v1.Pod) bool {
				c := p.Status.ContainerStatuses
				return len(c) == 1 && c[0].State.Waiting != nil && c[0].State.Waiting.Reason == reason
			}
		}

		b.untilPod(20*time.Second, "pod", "failed to pull", waiting("ErrImagePull"))
		b.untilPod(20*time.Second, "pod", "in back-off", waiting("ImagePullBackOff"))
		time.Sleep(5 * time.Minute)
		if n := b.runtime.Count("PullImage"); n < 5 || n > 7 { // after 10, 20, 40, 80, 160 s
			t.Errorf("%d pulls in five minutes", n)
		}

		broken.Store(false)
		b.untilReady(6*time.Minute, "pod")

		never := aPod("never", "sleep")
		never.Spec.Containers[0].Image, never.Spec.Containers[0].ImagePullPolicy = "registry.local/other:1",
			v1.PullNever
		b.cluster.create(never)
		b.untilPod(20*time.Second, "never", "waiting", waiting("ErrImageNeverPull"))
		bad := aPod("bad", "sleep")
		bad.Spec.Containers[0].Image = "Not/A:Name:1"
		b.cluster.create(bad)
		b.untilPod(20*time.Second, "bad", "waiting", waiting("InvalidImageName"))

		b.hasEvents("pod", "Pulling: ", "Failed: Failed to pull image", "BackOff: Back-off pulling image",
			"Pulled: Successfully pulled image")
		b.hasEvents("never",
			`ErrImageNeverPull: Container image "registry.local/other:1" is not present with pull policy of Never`)
		b.hasEvents("bad", "InspectFailed: Failed to apply default image tag")
		b.removeAll("pod", "never", "bad")
		b.nothingLeft()
	}, func(b *fakeNode) {
		b.runtime.Registry = func(string) error {
			if broken.Load() {
				return errors.New("not found")
			}
			return nil
		}
	})
}

// TestVolumeFailures: volumes that cannot be made are tried again; the fourth failure is an event, and others go on.
func TestVolumeFailures(t *testing.T) {
	var tries atomic.Int32
	inBubble(t, func(b *fakeNode) {
		p := aPod("pod", "sleep")
		p.Spec.Volumes = []v1.Volume{{Name: "data",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		b.cluster.create(p)
		b.cluster.create(aPod("other", "sleep"))

		b.untilReady(20*time.Second, "other")
		b.untilReady(5*time.Minute, "pod")
		if said := b.cluster.said("pod"); strings.Count(said, "FailedMount") != 3 || tries.Load() != 7 {
			t.Errorf("after %d tries the events are\n%s", tries.Load(), said)
		}
		if n := b.runtime.Count("CreateContainer"); n != 2 {
			t.Errorf("%d containers were made of two pods", n)
		}

		b.removeAll("pod", "other")
		b.nothingLeft()
	}, func(b *fakeNode) {
		b.volumeFault = func(p *v1.Pod) error {
			if p.Name == "pod" && tries.Add(1) <= 6 {
				return errors.Join(&volumeError{Volume: "data", Err: errors.New("no room")})
			}
			return nil
		}
	})
}

// TestOrphansWait: a sandbox that no source knows ends only when every source has delivered its pods; its containers'
// preStop hooks run.
func TestOrphansWait(t *testing.T) {
	inBubble(t, func(b *fakeNode) {
		time.Sleep(20 * time.Second) // the API server has not delivered yet
		if d := b.runtime.Dump(); !strings.Contains(d, "container running ns/orphan app#0") {
			t.Fatalf("before all pods are known:\n%s", d)
		}

		b.untilReady(30*time.Second, "known")
		b.within(time.Minute, "the orphan still runs", func() error {
			if d := b.runtime.Dump(); strings.Contains(d, "orphan") {
				return errors.New(d)
			}
			return nil
		})
		if n := b.runtime.Count("ExecSync"); n != 1 { // its annotations keep it
			t.Errorf("the preStop hook of the orphan ran %d times", n)
		}
		b.removeAll("known")
		b.nothingLeft()
	}, func(b *fakeNode) {
		b.cluster.slow = 25 * time.Second
		orphan := aPod("orphan", "sleep")
		orphan.UID = "orphan-uid"
		orphan.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: execHook("exit", "0")}
		rt := runtime.New(b.runtime.Dial(), runtime.Options{PodLogsDir: filepath.Join(b.dir, "log", "pods")})
		box, err := rt.CreateSandbox(context.Background(), runtime.SandboxSpec{Pod: orphan})
		if err == nil {
			_, err = rt.StartContainer(context.Background(),
				runtime.ContainerSpec{Sandbox: runtime.SandboxSpec{Pod: orphan}, SandboxID: box.ID,
					Container: &orphan.Spec.Containers[0], Args: []string{"sleep"}, ImageRef: testImage})
		}
		if err != nil {
			b.t.Fatal(err)
		}
		b.cluster.create(aPod("known", "sleep"))
	})
}

// TestFoldersWait: the folder of a pod that nobody knows stays for orphanGrace after the start, since the previous
// kubelet may have asked for a sandbox that is still being made.
func TestFoldersWait(t *testing.T) {
	folder := ""
	there := func() bool { _, err := os.Stat(folder); return err == nil }
	inBubble(t, func(b *fakeNode) {
		time.Sleep(orphanGrace - 100*time.Millisecond)
		if !there() {
			t.Errorf("the folder is gone before %v", orphanGrace)
		}
		b.within(time.Minute, "the folder is still there", func() error {
			if there() {
				return errors.New(folder)
			}
			return nil
		})
	}, func(b *fakeNode) {
		folder = filepath.Join(b.dir, "kubelet", "pods", "forgotten-uid")
		if err := os.MkdirAll(folder, 0o750); err != nil {
			b.t.Fatal(err)
		}
	})
}
