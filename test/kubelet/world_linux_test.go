package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	node      = "node1"
	namespace = "kubelet-test"
)

// world is a control plane, a containerd and the kubelet under test.
type world struct {
	*testkit.World
	t       *testing.T
	ctx     context.Context
	kubelet *testkit.Process
	proxy   *testkit.CRIProxy
	mounts  []string // those before the first pod
	killed  bool     // the kubelet was killed at random
	systemd bool     // systemd makes cgroups
}

// worldTime is the limit of the whole test, including AWAY.
func worldTime() time.Duration {
	away, _ := time.ParseDuration(os.Getenv("AWAY")) // testAway reports a value that is not valid
	return 6*time.Minute + away
}

// soundLogs fails the test if the kubelet's log has broken invariants or panics.
func (w *world) soundLogs(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(w.Path("kubelet-" + node + ".log"))
	must(t, err)
	for line := range strings.Lines(string(data)) {
		for _, bad := range []string{"Invariant broken", "panicked", "panic:", "fatal error:", "DATA RACE"} {
			if strings.Contains(line, bad) {
				t.Errorf("the kubelet reports: %s", line)
			}
		}
	}
}

// setup configures a world.
type setup struct {
	// limit is the longest time that the test may take.
	limit time.Duration
	// apiServer are further flags of the API server.
	apiServer []string
	// systemd has containerd make cgroups by systemd.
	systemd bool
	// proxied puts a proxy between kubelet and containerd.
	proxied bool
}

// newWorld starts everything. The end of the test removes it, and fails the test if a kubelet reported a broken
// invariant or a panic. It needs `make build`.
func newWorld(t *testing.T, s setup) *world {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	must(t, err)

	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	t.Cleanup(cancel)
	inner, err := testkit.NewWorld(ctx,
		testkit.Options{Bin: bin, Porthole: os.Getenv("PORTHOLE"), Prefix: "pht", Nodes: []string{node},
			APIServer: s.apiServer, SystemdCgroups: s.systemd})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(inner.Logs(6000))
		}
		must(t, inner.Close())
	})

	w := &world{World: inner, t: t, ctx: ctx, systemd: s.systemd}
	t.Cleanup(func() { w.soundLogs(t) })
	if s.proxied {
		w.proxy, err = inner.ProxyRuntime()
		must(t, err)
		t.Cleanup(w.proxy.Close)
	}

	must(t, w.Namespace(ctx, namespace))
	w.startKubelet()
	w.mounts, err = w.Mounts()
	must(t, err)
	return w
}

func (w *world) startKubelet() {
	w.t.Helper()
	var err error
	w.kubelet, err = w.StartKubelet(w.ctx, node, false)
	must(w.t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPod returns a pod on the node with one container that runs the test program with args.
func newPod(name string, args ...string) *v1.Pod {
	grace := int64(1)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: v1.PodSpec{NodeName: node,
		TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{container("app", args...)}}}
}

func container(name string, args ...string) v1.Container {
	return v1.Container{Name: name, Image: testkit.TestImage, Args: args}
}

func (w *world) create(t *testing.T, p *v1.Pod) *v1.Pod {
	t.Helper()
	made, err := w.Client.CoreV1().Pods(namespace).Create(w.ctx, p, metav1.CreateOptions{})
	must(t, err)
	return made
}

func (w *world) remove(t *testing.T, name string, grace *int64) {
	t.Helper()
	must(t, w.Client.CoreV1().Pods(namespace).Delete(w.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: grace}))
}

// until waits until good returns nil for a pod, and returns the pod.
func (w *world) until(t *testing.T, limit time.Duration, name string, good func(*v1.Pod) error) *v1.Pod {
	t.Helper()
	var last *v1.Pod
	must(t, wait.For(w.ctx, limit, "pod "+name, func(ctx context.Context) error {
		p, err := w.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		last = p
		return good(p)
	}))
	return last
}

func ready(p *v1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("it is not Ready: %s", statusText(p))
}

func inPhase(phase v1.PodPhase) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("its phase is not %s: %s", phase, statusText(p))
		}
		return nil
	}
}

func statusText(p *v1.Pod) string {
	return fmt.Sprintf("phase %s, containers %+v", p.Status.Phase, p.Status.ContainerStatuses)
}

// log returns what a container has printed.
func (w *world) log(t *testing.T, p *v1.Pod, container string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.podLogs(p), container, "0.log"))
	must(t, err)
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		if f := strings.SplitN(line, " ", 4); len(f) == 4 { // time, stream, F or P, text
			b.WriteString(f[3])
		}
	}
	return b.String()
}

func (w *world) podLogs(p *v1.Pod) string {
	return filepath.Join(w.PodLogs(node), p.Namespace+"_"+p.Name+"_"+string(p.UID))
}

// nothingLeft checks that no pod has left anything on the node.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	// a kubelet keeps folders for orphanGrace, ten seconds, after its start
	must(t, wait.For(w.ctx, 90*time.Second, "everything to be cleaned up", func(ctx context.Context) error {
		pods, err := w.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are still in the API", len(pods.Items))
		}
		return errors.Join(err, runtimeEmpty(ctx, w), w.noMounts(), noCgroups(w),
			emptyFolder(filepath.Join(w.KubeletRoot(node), "pods")), emptyFolder(w.PodLogs(node)),
			emptyFolder(filepath.Join(filepath.Dir(w.PodLogs(node)), "containers")), noAddresses(w))
	}))
}

// sandboxesOf returns the ids of a pod's sandboxes.
func (w *world) sandboxesOf(p *v1.Pod) (ids []string, err error) {
	list, err := w.Runtime.ListPodSandbox(w.ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}}})
	for _, b := range list.GetItems() {
		ids = append(ids, b.Id)
	}
	return ids, err
}

func runtimeEmpty(ctx context.Context, w *world) error {
	boxes, err := w.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	containers, err := w.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err == nil && len(boxes.Items)+len(containers.Containers) > 0 {
		err = fmt.Errorf("the runtime still has %d sandboxes and %d containers", len(boxes.Items),
			len(containers.Containers))
	}
	return err
}

func (w *world) noMounts() error {
	mounts, err := w.Mounts()
	for _, m := range mounts {
		if !slices.Contains(w.mounts, m) {
			err = errors.Join(err, fmt.Errorf("left mounted: %s", m))
		}
	}
	return err
}

// noCgroups allows the cgroups of the three classes, which stay.
func noCgroups(w *world) error {
	if w.systemd {
		return noSlices()
	}
	found, err := w.Cgroups()
	for _, c := range found {
		if !slices.Contains([]string{"kubepods", "kubepods/besteffort", "kubepods/burstable"}, c) {
			err = errors.Join(err, fmt.Errorf("left cgroup: %s", c))
		}
	}
	return err
}

// noAddresses looks for addresses that CNI still holds; it keeps a lock and the last address beside them. The first
// line of an address is the sandbox that has it.
func noAddresses(w *world) error {
	held, err := filepath.Glob(filepath.Join(w.CNIDir(), "10.*"))
	for _, file := range held {
		data, readErr := os.ReadFile(file)
		if errors.Is(readErr, os.ErrNotExist) {
			continue
		}
		sandbox, _, _ := strings.Cut(string(data), "\n")
		if sandbox = strings.TrimSpace(sandbox); readErr != nil || !setupCut(w, sandbox) {
			err = errors.Join(err, readErr, fmt.Errorf("address in use: %s of sandbox %s", file, sandbox))
		}
	}
	return err
}

// setupCut reports whether containerd gave up setting up the network of a sandbox because its caller was killed. It
// kills the CNI plugin then and undoes its work at once, while a plugin that this one has started may still reserve an
// address. containerd does not know the sandbox afterwards, which runtimeEmpty asserts, and no call frees the address
// (docs/gaps.md).
func setupCut(w *world, sandbox string) bool {
	data, err := os.ReadFile(w.Path("containerd.log"))
	cut := `failed to setup network for sandbox \"` + sandbox + `\"`
	return w.killed && err == nil && sandbox != "" && strings.Contains(string(data), cut)
}

func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("left in %s: %v", dir, entries)
	}
	return err
}
