package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	hostcri "porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// The pods of the group windows, and the node that they run on.
const (
	windowsNode  = "win01"
	windowsImage = "porthole/testapp:1"
	windowsLimit = 12 * time.Minute // for the whole group
)

// windowsSizes are how many pods start at once, how often that is measured, and what ours must not exceed.
var windowsSizes = []struct {
	pods, rounds int
	target       func(floor, peer float64) float64
}{
	{1, 9, ofFloor(1, 0.1)},
	{10, 4, ofFloor(1.15, 0)},
	{30, 2, ofFloor(1.15, 0)},
}

// windowsBench starts pods on an emulated Windows node of a local cluster: through the API, or with the node's runtime alone.
type windowsBench struct {
	pods    corev1.PodInterface
	runtime cri.RuntimeServiceClient
	serial  int
}

// benchWindows measures how long pods need to start on an emulated Windows node, beside the calls of the node's runtime that
// every kubelet must make. Both go on in turn in one local cluster, which it brings up and removes.
func benchWindows(ctx context.Context, o options) (err error) {
	if platform.NetnsExists(lab.RouterNetns) {
		return errors.New("a local cluster runs already (`porthole down` ends it)")
	}
	ctx, cancel := context.WithTimeout(ctx, windowsLimit)
	defer cancel()
	dir, remove, err := clusterFolder(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if _, err := up(ctx, filepath.Join(o.bin, "porthole"), dir); err != nil {
		return err
	}

	client, _, err := kube.Load(filepath.Join(dir, "kubeconfig"), "porthole-bench", -1, 0)
	if err != nil {
		return err
	}
	if err := checkGone(ctx, client); err != nil {
		return err
	}
	name := metav1.ObjectMeta{Name: namespace}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return err
	}
	conn, err := dialIn(lab.Netns(windowsNode), hostcri.Address)
	if err != nil {
		return err
	}
	defer conn.Close()

	b := &windowsBench{pods: client.CoreV1().Pods(namespace), runtime: cri.NewRuntimeServiceClient(conn)}
	return b.run(ctx)
}

// dialIn connects to a TCP address of a network namespace.
func dialIn(netns, address string) (*grpc.ClientConn, error) {
	dial := func(ctx context.Context, _ string) (conn net.Conn, err error) {
		err = platform.InNetns(platform.NetnsPath(netns), func() error {
			var d net.Dialer
			conn, err = d.DialContext(ctx, "tcp", address)
			return err
		})
		return conn, err
	}
	return grpc.NewClient("passthrough:///cri", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
}

// run measures each size in turn with the runtime alone, so that other work on the machine hits both alike.
func (b *windowsBench) run(ctx context.Context) error {
	if _, err := b.batch(ctx, 1); err != nil { // pulls the image, and fills caches
		return err
	}
	if _, err := b.bareBatch(ctx, 1); err != nil {
		return err
	}

	for _, size := range windowsSizes {
		found := samples{}
		for round := range size.rounds {
			say("windows: %d at once, round %d of %d", size.pods, round+1, size.rounds)
			floor, err := b.bareBatch(ctx, size.pods)
			if err != nil {
				return fmt.Errorf("%d at once, the runtime alone: %w", size.pods, err)
			}
			took, err := b.batch(ctx, size.pods)
			if err != nil {
				return fmt.Errorf("%d at once: %w", size.pods, err)
			}
			found.add("ready", bare, floor)
			found.add("ready", ours, took)
		}

		kubeletPart{lines: []line{{key: "ready", name: fmt.Sprintf("windows-bind-to-ready-%d-at-once", size.pods), unit: "s", target: size.target,
			note: "emulated Windows node; floor: RunPodSandbox, CreateContainer, StartContainer and ContainerStatus of its runtime"}}}.print(found, calls{})
	}
	return nil
}

func (b *windowsBench) name() string {
	b.serial++
	return fmt.Sprintf("pod-%d", b.serial)
}

// batch makes n pods on the node, waits until all are Ready, and deletes them. It returns the seconds from the first answer of
// the API server until the last is Ready.
func (b *windowsBench) batch(ctx context.Context, n int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience(n))
	defer cancel()
	seen := newWatcher()
	if err := seen.follow(ctx, b.pods); err != nil {
		return 0, err
	}

	names, bound, errs := make([]string, n), make([]time.Time, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		names[i] = b.name()
		all.Go(func() {
			p := benchPod(names[i], windowsNode)
			p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = windowsImage, []string{"serve"}
			p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
			_, errs[i] = b.pods.Create(ctx, p, metav1.CreateOptions{})
			bound[i] = time.Now()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}

	var last time.Time
	for _, name := range names {
		at, err := seen.wait(ctx, "to be Ready", name, isReady)
		if err != nil {
			return 0, err
		}
		if at.After(last) {
			last = at
		}
	}
	took := last.Sub(slices.MinFunc(bound, time.Time.Compare)).Seconds()

	if err := b.pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return 0, err
	}
	for _, name := range names {
		if _, err := seen.wait(ctx, "to be gone", name, isGone); err != nil {
			return 0, err
		}
	}
	return took, b.quiet(ctx)
}

// quiet waits until the runtime has no sandbox of the bench, so that no clean-up runs into the next sample.
func (b *windowsBench) quiet(ctx context.Context) error {
	return wait.For(ctx, 2*time.Minute, "sandboxes to be removed", func(ctx context.Context) error {
		list, err := b.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		ours := slices.DeleteFunc(list.Items, func(s *cri.PodSandbox) bool { return s.GetMetadata().GetNamespace() != namespace })
		if len(ours) > 0 {
			return fmt.Errorf("%d sandboxes are there", len(ours))
		}
		return nil
	})
}

// bareBatch makes n pods with the runtime alone and removes them. It returns the seconds until the last has started.
func (b *windowsBench) bareBatch(ctx context.Context, n int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience(n))
	defer cancel()
	boxes, errs := make([]string, n), make([]error, n)
	var all sync.WaitGroup
	began := time.Now()
	for i := range n {
		name := b.name()
		all.Go(func() { boxes[i], errs[i] = b.bareStart(ctx, name) })
	}
	all.Wait()
	took := time.Since(began).Seconds()

	for i, box := range boxes {
		all.Go(func() {
			if box == "" {
				return
			}
			_, stopErr := b.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: box})
			_, removeErr := b.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: box})
			errs[i] = errors.Join(errs[i], stopErr, removeErr)
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}

// bareStart runs a sandbox with one container and returns the sandbox's id. The sandbox has no UID of a pod, or the node's
// kubelet would remove it as an orphan.
func (b *windowsBench) bareStart(ctx context.Context, name string) (string, error) {
	config := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: name, Namespace: namespace}, Hostname: name,
		LogDirectory: `C:\var\log\floor\` + name, DnsConfig: &cri.DNSConfig{Servers: []string{"10.96.0.10"}}, Windows: &cri.WindowsPodSandboxConfig{}}
	box, err := b.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", fmt.Errorf("running a sandbox: %w", err)
	}

	made, err := b.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: box.PodSandboxId, SandboxConfig: config,
		Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: windowsImage},
			Args: []string{"serve"}, LogPath: "app.log", Windows: &cri.WindowsContainerConfig{}}})
	if err != nil {
		return box.PodSandboxId, fmt.Errorf("creating a container: %w", err)
	}
	if _, err := b.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return box.PodSandboxId, fmt.Errorf("starting a container: %w", err)
	}
	if _, err := b.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: made.ContainerId}); err != nil {
		return box.PodSandboxId, fmt.Errorf("reading a container's status: %w", err)
	}
	return box.PodSandboxId, nil
}
