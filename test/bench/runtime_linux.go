package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	hostcri "porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/winhost"
)

const (
	runtimeLimit = 15 * time.Minute // for the whole group
	windowsNode  = "win01"          // of a local cluster
	lightIs      = "emulator/cri, the runtime of our own"
)

// runtimeFlags are the runtimes of emulated Windows nodes that are compared, by side: flags of `porthole up`.
var runtimeFlags = map[string][]string{ours: {"--windows-runtime", "containerd.exe"}, peer: {"--windows-runtime", "light"}}

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

// runtimeLines are the figures of the part calls. The peer is the other runtime.
var runtimeLines = []line{
	{key: "sandbox", name: "runtime-run-pod-sandbox", unit: "s", note: "RunPodSandbox alone, the CNI plugin included"},
	{key: "create", name: "runtime-create-container", unit: "s"},
	{key: "start", name: "runtime-start-container", unit: "s"},
	{key: "ready", name: "runtime-bind-to-ready", unit: "s", target: func(_, peer float64) float64 { return round(1.5 * peer) }, note: "of a pod, through our kubelet.exe"},
}

// benchRuntime measures the runtimes of emulated Windows nodes: containerd.exe with runhcs beside the one of our own.
func benchRuntime(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeLimit)
	defer cancel()
	if named(o.runtime, runtimeMemory) {
		if err := benchRuntimeMemory(ctx, o); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	if !named(o.runtime, runtimeCalls) {
		return nil
	}
	if platform.NetnsExists(lab.RouterNetns) {
		return errors.New("a local cluster runs already (`porthole down` ends it)")
	}

	found := samples{}
	for _, side := range []string{peer, ours} {
		if err := benchRuntimeSide(ctx, o, side, found); err != nil {
			return err
		}
	}
	for _, l := range runtimeLines {
		f := figure{Name: l.name, Unit: l.unit, Note: l.note, Ours: median(found[l.key][ours]), Peer: median(found[l.key][peer]), PeerIs: lightIs,
			Samples: map[string][]float64{"ours": found[l.key][ours], "peer": found[l.key][peer]}}
		f.P99 = map[string]float64{"ours": percentile(found[l.key][ours], 0.99), "peer": percentile(found[l.key][peer], 0.99)}
		if p := median(found[l.key][peer]); p > 0 {
			f.Ratio = round(median(found[l.key][ours]) / p)
		}
		if l.target != nil {
			f.Target = l.target(0, median(found[l.key][peer]))
		}
		print(f)
	}
	return nil
}

// benchRuntimeSide measures one runtime on a node of a local cluster, which it brings up and removes.
func benchRuntimeSide(ctx context.Context, o options, side string, found samples) (err error) {
	dir, remove, err := clusterFolder(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	porthole := filepath.Join(o.bin, "porthole")
	came, err := up(ctx, porthole, dir, runtimeFlags[side]...)
	if err == nil && side == ours {
		if err = down(ctx, porthole, dir); err == nil {
			came, err = up(ctx, porthole, dir, runtimeFlags[side]...)
		}
		print(figure{Name: "runtime-up-warm", Unit: "s", Ours: came.total(), Target: 60, Steps: came.lines,
			Note: "one Linux node and two Windows nodes with containerd.exe Ready, and the data path tested; images and the Wine template are cached"})
	}
	if err != nil {
		return err
	}

	b, stop, err := runtimePods(ctx, o, dir, side)
	if err != nil {
		return err
	}
	defer stop()
	return b.measureRuntime(ctx, o.runtimeRounds, side, found)
}

// runtimePods connects to the node's runtime and to the API server.
func runtimePods(ctx context.Context, o options, dir, side string) (*windowsPods, func(), error) {
	client, _, err := kube.Load(filepath.Join(dir, "kubeconfig"), "porthole-bench", -1, 0)
	if err != nil {
		return nil, nil, err
	}
	name := metav1.ObjectMeta{Name: namespace}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}

	h := &winhost.Host{Porthole: filepath.Join(o.bin, "porthole"), Dir: dir, Name: windowsNode}
	b := &windowsPods{api: client.CoreV1().Pods(namespace), node: windowsNode, driveC: h.DriveC()}
	if side == ours {
		if err := h.ConnectRuntime(ctx); err != nil {
			h.Close()
			return nil, nil, err
		}
		b.runtime = h.Runtime
		return b, h.Close, nil
	}

	conn, err := dialIn(lab.Netns(windowsNode), hostcri.Address)
	if err != nil {
		return nil, nil, err
	}
	b.runtime = cri.NewRuntimeServiceClient(conn)
	return b, func() { conn.Close() }, nil
}

// dialIn connects to a TCP address of a network namespace.
func dialIn(netns, address string) (*grpc.ClientConn, error) {
	dial := testkit.DialIn(platform.NetnsPath(netns))
	return grpc.NewClient("passthrough:///cri", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, "tcp4", address) }))
}

// measureRuntime makes pods with the runtime alone and through the kubelet, in turn, one at a time.
func (b *windowsPods) measureRuntime(ctx context.Context, rounds int, side string, found samples) error {
	if _, err := b.batch(ctx, 1); err != nil { // pulls the image, and fills caches
		return err
	}
	for round := range rounds {
		say("runtime, %s: round %d of %d", strings.Join(append([]string{"porthole up"}, runtimeFlags[side]...), " "), round+1, rounds)
		_, pods, err := b.bareBatch(ctx, 1)
		if err != nil {
			return err
		}
		found.add("sandbox", side, pods[0].ran)
		found.add("create", side, pods[0].created)
		found.add("start", side, pods[0].started)
		took, err := b.batch(ctx, 1)
		if err != nil {
			return err
		}
		found.add("ready", side, took)
	}
	return nil
}

const memoryPods = 5

// benchRuntimeMemory measures what a host with containerd.exe takes, and then what each pod adds beside its own program.
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
	print(figure{Name: "runtime-host-memory", Unit: "MB", Ours: round(alone.total.MB), Target: hostMemoryTarget, Programs: alone.by,
		Note: "proportional set size of all processes of a host with containerd.exe and no pod"})

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
	print(figure{Name: "runtime-pod-memory", Unit: "MB", Ours: round((full.total.MB - alone.total.MB) / memoryPods), Target: podMemoryTarget, Programs: full.by,
		Note: fmt.Sprintf("what %d pods of one container add to the host's, without the containers' own programs, each", memoryPods)})
	return nil
}

// used is what the processes of a host use.
type used struct {
	by    map[string]programUse
	total programUse
}

// ownUse is what the host uses without what the bench runs on it, and without the programs of containers.
func ownUse(h *winhost.Host) (u used, err error) {
	if u.by, _, err = hostUse(h); err != nil {
		return u, err
	}
	for name, of := range u.by {
		switch {
		case name == "registry" || strings.HasPrefix(name, "kube ") || strings.HasSuffix(name, "relay.exe") || strings.HasSuffix(name, "testapp.exe"):
			delete(u.by, name)
		default:
			u.total = programUse{Processes: u.total.Processes + of.Processes, MB: u.total.MB + of.MB, CPU: u.total.CPU + of.CPU}
		}
	}
	return u, nil
}
