package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
	"porthole.dev/porthole/kubelet/volume"
)

// The tests of this file and of those named *_bubble_test.go run a whole kubelet, from the API to CRI, in a bubble of
// fake time: the runtime is runtimetest's, the API server is cluster, volumes are real folders.

type (
	criEvent    = cri.ContainerEventResponse
	volumeError = volume.Error
)

// testImage is present on every node of a bubble.
const testImage = "testkit.local/testapp:1"

// fakeNode is one node with its cluster, in a bubble.
type fakeNode struct {
	t       *testing.T
	cluster *cluster
	runtime *runtimetest.Fake
	cgroups *fakeCgroups
	// volumeFault, if set, lets Prepare fail for a pod.
	volumeFault func(*v1.Pod) error
	static      []StaticSource
	windows     bool // the node runs Windows
	meter       *meter.Meter
	pressure    Pressure
	planted     func() error // why a mount of a container that has started is not what it was
	imageGC     bool         // unused images are removed when the disk is full
	facts       string       // folder of recorded facts; empty records none
	dir         string
	log         *lockedBuffer
	kubelet     *runningKubelet
}

// runningKubelet is one process of the kubelet.
type runningKubelet struct {
	*Kubelet
	cancel context.CancelFunc
	conn   *runtimetest.Conn
	client *client
	done   chan struct{}
}

// inBubble runs a test on a node whose kubelet has just begun, and fails it if a kubelet reports what must never be.
func inBubble(t *testing.T, test func(*fakeNode), prepare ...func(*fakeNode)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		b := &fakeNode{t: t, cluster: newCluster(), runtime: runtimetest.New(testImage),
			cgroups: &fakeCgroups{pods: map[types.UID]bool{}},
			dir:     t.TempDir(), log: &lockedBuffer{}}
		b.runtime.Latency = func(c runtimetest.Call) time.Duration {
			if c.Method == "RunPodSandbox" {
				return 150 * time.Millisecond
			}
			return 20 * time.Millisecond
		}
		for _, p := range prepare {
			p(b)
		}
		b.start()
		defer func() { // also after a test that failed: a bubble waits for all its goroutines
			b.kill()
			b.sound()
		}()
		test(b)
	})
}

// start begins a new process of the kubelet.
func (b *fakeNode) start() {
	b.t.Helper()
	conn, client := b.runtime.Dial(), b.cluster.client()
	manager := volume.New(volume.Options{RootDir: filepath.Join(b.dir, "kubelet"), NodeName: "node"})
	rt := runtime.New(conn, runtime.Options{PodLogsDir: filepath.Join(b.dir, "log", "pods"),
		RootDir: filepath.Join(b.dir, "kubelet"), CPUs: 8, Windows: b.windows})
	system := "linux"
	if b.windows {
		system = "windows"
	}

	o := Options{Node: nodestatus.Options{Name: "node", IPs: func() []string { return []string{"10.98.0.1"} },
		MaxPods: 110, DeclaredFeatures: config.DeclaredFeatures, StatusPeriod: 10 * time.Second,
		ReportPeriod: 5 * time.Minute,
		Host: platform.Host{OS: system, Arch: "amd64", CPUs: 8, MemoryBytes: 16 << 30, DiskBytes: 100 << 30,
			KernelVersion: "6.1.0"}},
		RootDir: filepath.Join(b.dir, "kubelet"), PodLogsDir: filepath.Join(b.dir, "log", "pods"), LeaseSeconds: 40,
		API: NewAPI(client), Runtime: NewRuntime(rt), Images: image.New(conn, 5),
		Volumes: Volumes{faultyVolumes{manager, b}, manager, manager, manager},
		Cgroups: b.cgroups, Static: b.static, Windows: b.windows, Meter: b.meter}
	o.Pressure = b.pressure
	if b.imageGC {
		o.ImageGC = &image.GC{Images: cri.NewImageServiceClient(conn), Runtime: cri.NewRuntimeServiceClient(conn),
			Event:  client.NodeEvent,
			Policy: image.GCPolicy{High: 100, Low: 80, MinAge: 2 * time.Minute}}
	}
	if b.facts != "" {
		log, err := factlog.Open(b.facts, factlog.DefaultLimits)
		if err != nil {
			b.t.Fatal(err)
		}
		o.Facts = log
	}

	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(b.log), textlogger.Verbosity(0)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	k := &runningKubelet{Kubelet: New(o), cancel: cancel, conn: conn, client: client, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		defer manager.Close()
		if err := k.Run(ctx); err != nil && ctx.Err() == nil {
			b.t.Errorf("the kubelet ended: %v", err)
		}
		k.running.Wait()
	}()
	b.kubelet = k
}

// kill ends the kubelet's process: no call of it gets through any more, and calls under way are cut.
func (b *fakeNode) kill() {
	k := b.kubelet
	close(k.client.dead)
	k.conn.Close()
	k.cancel()
	<-k.done
}

// restart kills the kubelet and starts the next one.
func (b *fakeNode) restart() {
	b.t.Helper()
	b.kill()
	b.start()
}

// sound fails the test for what a kubelet must never report.
func (b *fakeNode) sound() {
	b.t.Helper()
	text := b.log.String()
	for line := range strings.Lines(text) {
		for _, bad := range []string{"Invariant broken", "panicked", "internal error"} {
			if strings.Contains(line, bad) {
				b.t.Errorf("the kubelet reports: %s", line)
			}
		}
	}
	if b.t.Failed() {
		b.t.Logf("log:\n%s", text[max(0, len(text)-8000):])
		b.t.Logf("runtime:\n%s", b.runtime.Dump())
	}
}

// within waits until a condition is met and fails the test if it is not in time. An error says what is missing.
func (b *fakeNode) within(limit time.Duration, what string, met func() error) {
	b.t.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = met(); err == nil {
			return
		}
	}
	b.t.Fatalf("%s, after %v: %v", what, limit, err)
}

// untilReady waits for pods to be Ready.
func (b *fakeNode) untilReady(limit time.Duration, names ...string) {
	b.t.Helper()
	b.within(limit, "pods are not Ready", func() error {
		for _, name := range names {
			p := b.cluster.get(name)
			if p == nil || !isReady(&p.Status) {
				return fmt.Errorf("pod %s: %s\nevents:\n%s", name, statusOf(p), b.cluster.said(name))
			}
		}
		return nil
	})
}

// untilPod waits for a pod to be as met says.
func (b *fakeNode) untilPod(limit time.Duration, name, what string, met func(*v1.Pod) bool) *v1.Pod {
	b.t.Helper()
	var last *v1.Pod
	b.within(limit, "pod "+name+" is not "+what, func() error {
		if last = b.cluster.get(name); last != nil && met(last) {
			return nil
		}
		return fmt.Errorf("it is %s\nevents:\n%s", statusOf(last), b.cluster.said(name))
	})
	return last
}

// untilGone waits until the API has forgotten pods.
func (b *fakeNode) untilGone(limit time.Duration, names ...string) {
	b.t.Helper()
	b.within(limit, "pods are not gone", func() error {
		for _, name := range names {
			if p := b.cluster.get(name); p != nil {
				return fmt.Errorf("pod %s: %s", name, statusOf(p))
			}
		}
		return nil
	})
}

func statusOf(p *v1.Pod) string {
	if p == nil {
		return "absent"
	}
	return fmt.Sprintf("phase %s %s, conditions %v, init %v, containers %v", p.Status.Phase, p.Status.Reason,
		p.Status.Conditions, p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// nothingLeft checks that runtime, disk and cgroups have nothing of any pod.
func (b *fakeNode) nothingLeft() {
	b.t.Helper()
	b.within(2*time.Minute, "something is left", func() error {
		var errs []error
		if d := b.runtime.Dump(); d != "" {
			errs = append(errs, fmt.Errorf("in the runtime:\n%s", d))
		}
		for _, dir := range []string{"kubelet/pods", "log/pods", "log/containers"} {
			entries, err := os.ReadDir(filepath.Join(b.dir, dir))
			if err != nil && !errors.Is(err, os.ErrNotExist) || len(entries) > 0 {
				errs = append(errs, fmt.Errorf("in %s: %v %w", dir, entries, err))
			}
		}
		if left := b.cgroups.left(); len(left) > 0 {
			errs = append(errs, fmt.Errorf("cgroups of %v", left))
		}
		for _, p := range b.cluster.list() {
			errs = append(errs, fmt.Errorf("pod %s in the API", p.Name))
		}
		return errors.Join(errs...)
	})
}

// instance is a container of a pod and how often it was restarted.
type instance struct {
	id       string
	restarts int32
}

// hasEvents checks that events about a pod were sent, given by how their "reason: message" begins.
func (b *fakeNode) hasEvents(pod string, want ...string) {
	b.t.Helper()
	said := b.cluster.said(pod)
	for _, w := range want {
		if !strings.Contains("\n"+said, "\n"+w) {
			b.t.Errorf("pod %s has no event %q; it has\n%s", pod, w, said)
		}
	}
}

// runningOnce checks that each of these pods has exactly one running instance of its container "app", and returns them.
func (b *fakeNode) runningOnce(names ...string) map[string]instance {
	b.t.Helper()
	running, out := b.runtime.Running(), map[string]instance{}
	for _, name := range names {
		list := running[name+"/app"]
		if len(list) != 1 {
			b.t.Errorf("pod %s has %d running containers\n%s", name, len(list), b.runtime.Dump())
			continue
		}
		out[name] = instance{list[0], b.cluster.get(name).Status.ContainerStatuses[0].RestartCount}
	}
	return out
}

// untouched checks that pods still run in the containers in which they ran before.
func (b *fakeNode) untouched(before map[string]instance) {
	b.t.Helper()
	for name, now := range b.runningOnce(slices.Collect(maps.Keys(before))...) {
		if now != before[name] {
			b.t.Errorf("pod %s is in container %s with %d restarts, was in %s with %d", name, now.id, now.restarts,
				before[name].id, before[name].restarts)
		}
	}
}

// aPod is a pod with one container that runs the test program with args.
func aPod(name string, args ...string) *v1.Pod {
	grace := int64(5)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec: v1.PodSpec{NodeName: "node", RestartPolicy: v1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{aContainer("app", args...)}}}
}

func aContainer(name string, args ...string) v1.Container {
	return v1.Container{Name: name, Image: testImage, Args: args, ImagePullPolicy: v1.PullIfNotPresent}
}

// create makes pods that run until they are stopped, and returns their names.
func (b *fakeNode) create(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
		b.cluster.create(aPod(names[i], "sleep"))
	}
	return names
}

func (b *fakeNode) removeAll(names ...string) {
	for _, name := range names {
		b.cluster.remove(name, -1)
	}
}

// fakeCgroups remembers which pods have a cgroup.
type fakeCgroups struct {
	mu      sync.Mutex
	pods    map[types.UID]bool
	resized int
}

func (f *fakeCgroups) Begin(context.Context) error { return nil }

func (f *fakeCgroups) Path(p *v1.Pod) string { return "/kubepods/pod" + string(p.UID) }

func (f *fakeCgroups) Ensure(p *v1.Pod) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[p.UID] = true
	return nil
}

func (f *fakeCgroups) Resize(p *v1.Pod, change func() error) error {
	f.mu.Lock()
	has := f.pods[p.UID]
	f.resized++
	f.mu.Unlock()
	if !has {
		return errors.New("the pod has no cgroup")
	}
	return change()
}

func (f *fakeCgroups) RemovePod(uid types.UID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, uid)
	return nil
}

func (f *fakeCgroups) RemoveContainer(types.UID, string) error { return nil }

func (f *fakeCgroups) Share([]*v1.Pod) error { return nil }

func (f *fakeCgroups) left() (out []types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid := range f.pods {
		out = append(out, uid)
	}
	return out
}

// faultyVolumes are real volumes whose preparation fails when the bubble says so.
type faultyVolumes struct {
	*volume.Manager
	b *fakeNode
}

func (f faultyVolumes) Prepare(ctx context.Context, p *v1.Pod, facts volume.Facts) error {
	if fault := f.b.volumeFault; fault != nil {
		if err := fault(p); err != nil {
			return err
		}
	}
	return f.Manager.Prepare(ctx, p, facts)
}

// Mounts gives the mounts, of which one has become a link when the container has started if the bubble says so.
func (f faultyVolumes) Mounts(p *v1.Pod, c *v1.Container, known func(string) (string, bool)) ([]volume.Mount,
	func() error, error) {
	mounts, release, err := f.Manager.Mounts(p, c, known)
	return mounts, func() error {
		if err := release(); err != nil || f.b.planted == nil {
			return err
		}
		return f.b.planted()
	}, err
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// faulty makes one call in ten fail, half of them after they were carried out.
func faulty(seed uint64) func(*fakeNode) {
	return func(b *fakeNode) {
		b.runtime.Fault = runtimetest.OneIn(10, seed, runtimetest.Fail, runtimetest.DoThenFail)
	}
}

// seeds are the sequences of faults with which the random tests run.
var seeds = []uint64{1, 2, 3}

// TestPodsComeAndGo: thirty pods become Ready and go, each container runs once, and nothing is left, although one call
// in ten fails.
func TestPodsComeAndGo(t *testing.T) {
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(b *fakeNode) {
				names := b.create("pod", 30)
				b.untilReady(3*time.Minute, names...)
				before := b.runningOnce(names...)
				time.Sleep(10 * time.Minute) // full checks, with calls that fail
				b.untouched(before)
				b.removeAll(names...)
				b.untilGone(3*time.Minute, names...)
				b.nothingLeft()
			}, faulty(seed))
		})
	}
}

// TestKilledAtRandomInBubble kills the kubelet at random moments while pods are made, restarted and deleted, and one
// call in ten fails. Afterwards what nobody touched runs in the same containers, everything else runs once, and
// nothing of a deleted pod is left.
func TestKilledAtRandomInBubble(t *testing.T) {
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(b *fakeNode) {
				stable := b.create("stable", 10)
				b.untilReady(3*time.Minute, stable...)
				before := b.runningOnce(stable...)
				chance := rand.New(rand.NewPCG(seed, 7))
				for range 30 {
					for range chance.IntN(30) {
						b.churn(chance)
						time.Sleep(time.Duration(chance.IntN(160)) * time.Millisecond)
					}
					b.restart()
				}

				b.runtime.SetFault(nil)
				var all []string
				b.within(5*time.Minute, "not all pods are Ready", func() error {
					all = nil
					for _, p := range b.cluster.list() {
						if p.DeletionTimestamp != nil || !isReady(&p.Status) {
							return fmt.Errorf("pod %s: %s", p.Name, statusOf(p))
						}
						all = append(all, p.Name)
					}
					for _, name := range all { // a deleted pod of the same name may still be ending
						if n := len(b.runtime.Running()[name+"/app"]); n != 1 {
							return fmt.Errorf("pod %s has %d running containers", name, n)
						}
					}
					if n := len(b.runtime.Running()); n != len(all) {
						return fmt.Errorf("%d containers run of %d pods", n, len(all))
					}
					return nil
				})
				b.untouched(before)
				b.removeAll(all...)
				b.nothingLeft()
			}, faulty(seed))
		})
	}
}

// churn changes one of twenty pods: a name that is free gets a pod, a pod is deleted (sometimes at once), or its
// container ends.
func (b *fakeNode) churn(chance *rand.Rand) {
	name := fmt.Sprintf("churn-%d", chance.IntN(20))
	p := b.cluster.get(name)
	switch {
	case p == nil:
		p := aPod(name, "sleep")
		if chance.IntN(3) == 0 {
			p.Spec.InitContainers = []v1.Container{aContainer("first", "echo")}
		}
		b.cluster.create(p)
		return
	case p.DeletionTimestamp != nil:
		return
	}

	switch chance.IntN(6) {
	case 0:
		b.cluster.remove(name, -1)
	case 1:
		b.cluster.remove(name, 0)
	case 2:
		if ids := b.runtime.Running()[name+"/app"]; len(ids) > 0 &&
			!slices.ContainsFunc(p.Status.ContainerStatuses,
				func(c v1.ContainerStatus) bool { return c.RestartCount > 1 }) {
			b.runtime.Crash(ids[0], 1)
		}
	}
}
