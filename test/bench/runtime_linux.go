package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/winhost"
)

const (
	runtimeLimit = 15 * time.Minute // for the whole group
	windowsNode  = "win01"          // of a local cluster
)

// Parts of the group runtime.
const (
	runtimeCalls  = "calls"
	runtimeMemory = "memory"
)

// What a host with containerd.exe, and each of its pods, must not exceed, in MB.
const (
	hostMemoryTarget = 120.0
	podMemoryTarget  = 45.0
)

// runtimeLines are the figures of the part calls: the floor, which is the calls of containerd.exe alone, and a pod
// through the kubelet.
// The keys are those of samples; only ours has any.
var runtimeLines = []line{
	{key: "sandbox", name: "runtime-run-pod-sandbox", unit: "s", note: "RunPodSandbox alone, the CNI plugin included"},
	{key: "create", name: "runtime-create-container", unit: "s"},
	{key: "start", name: "runtime-start-container", unit: "s"},
	{key: "ready", name: "runtime-bind-to-ready", unit: "s", note: "of a pod, through our kubelet.exe"},
	{key: "start-cpu", name: "runtime-start-processor", unit: "s",
		note: "processor time of the machine, or of this program's container, from the pod's creation until it is Ready: means something if nothing else runs there"},
	{key: "end-cpu", name: "runtime-end-processor", unit: "s",
		note: "likewise, from its deletion until its sandbox is gone"},
}

// benchRuntime measures the runtime of emulated Windows nodes, containerd.exe with runhcs: its memory, its calls and
// pods on it.
func benchRuntime(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeLimit)
	defer cancel()
	// The memory comes first: it can be measured while a local cluster runs, the calls cannot.
	if named(o.runtime, runtimeMemory) {
		if err := benchRuntimeMemory(ctx, o); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	if !named(o.runtime, runtimeCalls) {
		return nil
	}
	if platform.NetnsExists(lab.Default.RouterNetns()) {
		return errors.New("a local cluster runs already (`porthole down` ends it)")
	}

	found := samples{}
	if err := benchRuntimeCalls(ctx, o, found); err != nil {
		return err
	}
	for _, l := range runtimeLines {
		print(figure{Name: l.name, Unit: l.unit, Note: l.note, Ours: median(found[l.key][ours]),
			Samples: map[string][]float64{"ours": found[l.key][ours]},
			P99:     map[string]float64{"ours": percentile(found[l.key][ours], 0.99)}})
	}
	return nil
}

// benchRuntimeCalls measures the runtime on a node of a local cluster, which it brings up and removes.
// The first start is cold; what is printed is the second.
func benchRuntimeCalls(ctx context.Context, o options, found samples) (err error) {
	dir, remove, err := clusterFolder(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	porthole := filepath.Join(o.bin, "porthole")
	if _, err := up(ctx, porthole, dir); err != nil {
		return err
	}
	if err := down(ctx, porthole, dir); err != nil {
		return err
	}
	came, err := up(ctx, porthole, dir)
	if err != nil {
		return err
	}
	print(figure{Name: "runtime-up-warm", Unit: "s", Ours: came.total(), Target: 60, Steps: came.lines,
		Note: "one Linux node and two Windows nodes Ready, and the data path tested; images and the Wine template are cached"})

	b, stop, err := runtimePods(ctx, o, dir)
	if err != nil {
		return err
	}
	defer stop()
	return b.measureRuntime(ctx, o.runtimeRounds, found)
}

// runtimePods connects to the node's runtime and to the API server.
// The second result closes the connection.
func runtimePods(ctx context.Context, o options, dir string) (*windowsPods, func(), error) {
	client, _, err := kube.Load(filepath.Join(dir, "kubeconfig"), "porthole-bench", -1, 0)
	if err != nil {
		return nil, nil, err
	}
	name := metav1.ObjectMeta{Name: namespace}
	if _, err := client.CoreV1().Namespaces().
		Create(ctx, &v1.Namespace{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}

	h := &winhost.Host{Porthole: filepath.Join(o.bin, "porthole"), Dir: dir, Name: windowsNode}
	if err := h.ConnectRuntime(ctx); err != nil {
		h.Close()
		return nil, nil, err
	}
	return &windowsPods{api: client.CoreV1().Pods(namespace), node: windowsNode, driveC: h.DriveC(),
		runtime: h.Runtime}, h.Close, nil
}

// measureRuntime makes pods with the runtime alone and through the kubelet, in turn, one at a time.
// The runtime alone has no pod's UID, and the kubelet leaves its sandboxes alone.
func (b *windowsPods) measureRuntime(ctx context.Context, rounds int, found samples) error {
	if _, err := b.batch(ctx, 1); err != nil { // pulls the image, and fills caches
		return err
	}
	for round := range rounds {
		say("runtime: round %d of %d", round+1, rounds)
		_, pods, err := b.bareBatch(ctx, 1)
		if err != nil {
			return err
		}
		found.add("sandbox", ours, pods[0].ran)
		found.add("create", ours, pods[0].created)
		found.add("start", ours, pods[0].started)
		if err := b.measurePod(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// measurePod makes a pod through the kubelet and deletes it.
// The processor time is of all that runs, so that shims and Wine count.
func (b *windowsPods) measurePod(ctx context.Context, found samples) error {
	before, err := processorTime()
	if err != nil {
		return err
	}
	r, err := b.start(ctx, 1, nil)
	if err != nil {
		return err
	}
	ready, err := processorTime()
	if err != nil {
		return err
	}
	if _, err := b.end(ctx, r); err != nil {
		return err
	}
	gone, err := processorTime()
	if err != nil {
		return err
	}
	found.add("ready", ours, r.took)
	found.add("start-cpu", ours, (ready - before).Seconds())
	found.add("end-cpu", ours, (gone - ready).Seconds())
	return nil
}

// processorTime is what all processes below the root of the control groups that this program sees have used so far:
// those of a container if it runs in one, else of the machine. It reads cgroups of version 2 or 1 (cgroups(7)).
func processorTime() (time.Duration, error) {
	if data, err := os.ReadFile("/sys/fs/cgroup/cpu.stat"); err == nil {
		var micros int64
		if _, err := fmt.Sscanf(string(data), "usage_usec %d", &micros); err != nil {
			return 0, fmt.Errorf("reading the processor time of the root control group: %w", err)
		}
		return time.Duration(micros) * time.Microsecond, nil
	}
	data, err := os.ReadFile("/sys/fs/cgroup/cpuacct/cpuacct.usage")
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of the root control group: %w", err)
	}
	nanos, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return time.Duration(nanos), err
}

// memoryPods are made one after the other; the figure is their mean.
const memoryPods = 5

// benchRuntimeMemory measures what a host with containerd.exe takes, and then what each pod adds beside its own
// program.
func benchRuntimeMemory(ctx context.Context, o options) (err error) {
	h, remove, err := windowsHost(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	b := &windowsPods{runtime: h.Runtime, node: "memory", driveC: h.DriveC()}
	if _, _, err := b.bareBatch(ctx, 1); err != nil { // what the host keeps of its first pod is the host's
		return err
	}
	alone, err := ownUse(h)
	if err != nil {
		return err
	}
	print(figure{Name: "runtime-host-memory", Unit: "MB", Ours: round(alone.total.MB), Target: hostMemoryTarget,
		Programs: alone.by,
		Note:     "proportional set size of all processes of a host with containerd.exe and no pod"})

	for range memoryPods {
		p := b.bare()
		defer func() { err = errors.Join(err, p.stop(ctx, 0), p.remove(ctx)) }()
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}
	full, err := ownUse(h)
	if err != nil {
		return err
	}
	print(figure{Name: "runtime-pod-memory", Unit: "MB", Ours: round((full.total.MB - alone.total.MB) / memoryPods),
		Target: podMemoryTarget, Programs: full.by,
		Note: fmt.Sprintf("what %d pods of one container add to the host's, without the containers' own programs, each",
			memoryPods)})
	return nil
}

// used is what the processes of a host use.
// total is the sum of by, in which containers' own programs are left out.
type used struct {
	by    map[string]programUse
	total programUse
}

// ownUse is what the host uses without what the bench runs on it, and without the programs of containers.
// The registry, the control plane and the relay are the bench's own.
func ownUse(h *winhost.Host) (u used, err error) {
	if u.by, _, err = hostUse(h); err != nil {
		return u, err
	}
	for name, of := range u.by {
		switch {
		case name == "registry" || strings.HasPrefix(name, "kube ") || strings.HasSuffix(name, "relay.exe") ||
			strings.HasSuffix(name, "testapp.exe"):
			delete(u.by, name)
		default:
			u.total = programUse{Processes: u.total.Processes + of.Processes, MB: u.total.MB + of.MB,
				CPU: u.total.CPU + of.CPU}
		}
	}
	return u, nil
}
