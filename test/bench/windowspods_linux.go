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
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

const windowsImage = "porthole/testapp:1"

// windowsPods starts pods on an emulated Windows node: through the API, or with the node's runtime alone.
type windowsPods struct {
	// api is nil where pods are made with the runtime alone.
	api     corev1.PodInterface
	runtime cri.RuntimeServiceClient
	node    string
	driveC  string // of the node, as Linux has it
	// lazy is a kubelet that leaves ended sandboxes in the runtime for up to a minute: they are removed for it.
	lazy bool
	// serial is the number of the last name.
	serial int
}

// name is a name that no other pod of the run has.
func (b *windowsPods) name() string {
	b.serial++
	return fmt.Sprintf("%s-%d", b.node, b.serial)
}

// windowsPod is a pod of the test program that ends at once when it is told to.
func windowsPod(name, node string) *v1.Pod {
	p := benchPod(name, node)
	p.Spec.Containers[0].Image = windowsImage
	p.Spec.Containers[0].Args = []string{"serve"}
	p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	return p
}

// running are pods that are Ready.
type running struct {
	names []string
	seen  *watcher
	// took is how many seconds passed from the first answer of the API server until the last was Ready, each the same
	// for each pod.
	took float64
	each []float64
	stop context.CancelFunc // ends the watch
}

// start makes n pods on the node and waits until all are Ready. change may adapt each; nil: none.
// The watch goes on until end calls stop; with an error it has ended already.
func (b *windowsPods) start(ctx context.Context, n int, change func(*v1.Pod)) (*running, error) {
	ctx, stop := context.WithTimeout(ctx, 3*patience(n))
	r := &running{seen: newWatcher(), stop: stop, names: make([]string, n), each: make([]float64, n)}
	if err := r.seen.follow(ctx, b.api); err != nil {
		stop()
		return nil, err
	}

	bound := make([]time.Time, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		r.names[i] = b.name()
		all.Go(func() {
			p := windowsPod(r.names[i], b.node)
			if change != nil {
				change(p)
			}
			_, errs[i] = b.api.Create(ctx, p, metav1.CreateOptions{})
			bound[i] = time.Now()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		stop()
		return nil, err
	}

	var last time.Time
	for i, name := range r.names {
		at, err := r.seen.wait(ctx, "to be Ready", name, isReady)
		if err != nil {
			stop()
			return nil, err
		}
		r.each[i] = at.Sub(bound[i]).Seconds()
		if at.After(last) {
			last = at
		}
	}
	r.took = last.Sub(slices.MinFunc(bound, time.Time.Compare)).Seconds()
	return r, nil
}

// end deletes the pods, and returns the seconds until the API has none of them. The runtime has no sandbox of them
// either when it returns.
// Deletes are sent one after the other; the time runs from the first.
func (b *windowsPods) end(ctx context.Context, r *running) (float64, error) {
	defer r.stop()
	limited, cancel := context.WithTimeout(ctx, 3*patience(len(r.names)))
	defer cancel()
	began := time.Now()
	for _, name := range r.names {
		if err := b.api.Delete(limited, name, metav1.DeleteOptions{}); err != nil {
			return 0, err
		}
	}
	for _, name := range r.names {
		if _, err := r.seen.wait(limited, "to be gone", name, isGone); err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds(), b.quiet(ctx)
}

// quiet waits until the runtime has no sandbox of the bench, so that no clean-up runs into the next sample.
func (b *windowsPods) quiet(ctx context.Context) error {
	return wait.For(ctx, 3*time.Minute, "sandboxes to be removed", func(ctx context.Context) error {
		list, err := b.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(list.Items,
			func(s *cri.PodSandbox) bool { return s.GetMetadata().GetNamespace() != namespace })
		if len(left) == 0 {
			return nil
		}
		errs := []error{fmt.Errorf("%d sandboxes are there", len(left))}
		for _, s := range left {
			if !b.lazy || s.State == cri.PodSandboxState_SANDBOX_READY {
				continue
			}
			_, err := b.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: s.Id})
			errs = append(errs, err) // the kubelet may do the same at that moment
		}
		return errors.Join(errs...)
	})
}

// batch makes n pods, waits until all are Ready, and deletes them. It returns how long the first took.
// The time of the end is not part of the result.
func (b *windowsPods) batch(ctx context.Context, n int) (float64, error) {
	r, err := b.start(ctx, n, nil)
	if err != nil {
		return 0, err
	}
	_, err = b.end(ctx, r)
	return r.took, err
}

// barePods is a pod that is made by the calls that every kubelet must make, and nothing else.
type bareWindowsPod struct {
	b                  *windowsPods
	config             *cri.PodSandboxConfig
	sandbox, container string
	// Seconds that each call took.
	// They are 0 for calls that were not made.
	ran, created, started float64
}

// bare is a pod without a UID: a kubelet of the node would remove it as an orphan otherwise.
// The log folder is a path of Windows; WriteGuest makes it on C: before the start.
func (b *windowsPods) bare() *bareWindowsPod {
	name := b.name()
	return &bareWindowsPod{b: b,
		config: &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: name, Namespace: namespace},
			Hostname:     name,
			LogDirectory: `C:\var\log\floor\` + name, DnsConfig: &cri.DNSConfig{Servers: []string{"10.96.0.10"}},
			Windows: &cri.WindowsPodSandboxConfig{}}}
}

// start runs the sandbox and its container.
func (p *bareWindowsPod) start(ctx context.Context) error {
	if err := testkit.WriteGuest(p.b.driveC, "var/log/floor/"+p.config.Metadata.Name+"/.keep", nil, 0o644); err != nil {
		return err
	}

	began := time.Now()
	box, err := p.b.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return fmt.Errorf("running a sandbox: %w", err)
	}
	p.sandbox = box.PodSandboxId
	p.ran = time.Since(began).Seconds()
	return p.run(ctx, 0)
}

// run makes and starts the pod's container.
// A second call, with the next attempt, makes a container in the same sandbox.
func (p *bareWindowsPod) run(ctx context.Context, attempt uint32) error {
	began := time.Now()
	made, err := p.b.runtime.CreateContainer(ctx,
		&cri.CreateContainerRequest{PodSandboxId: p.sandbox, SandboxConfig: p.config,
			Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "app", Attempt: attempt},
				Image: &cri.ImageSpec{Image: windowsImage},
				Args:  []string{"serve"}, LogPath: fmt.Sprintf("app-%d.log", attempt),
				Windows: &cri.WindowsContainerConfig{}}})
	if err != nil {
		return fmt.Errorf("creating a container: %w", err)
	}
	p.container = made.ContainerId
	p.created = time.Since(began).Seconds()

	began = time.Now()
	if _, err := p.b.runtime.StartContainer(ctx,
		&cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return fmt.Errorf("starting a container: %w", err)
	}
	p.started = time.Since(began).Seconds()
	if _, err := p.b.runtime.ContainerStatus(ctx,
		&cri.ContainerStatusRequest{ContainerId: made.ContainerId}); err != nil {
		return fmt.Errorf("reading a container's status: %w", err)
	}
	return nil
}

// stop ends the pod; grace is in seconds.
func (p *bareWindowsPod) stop(ctx context.Context, grace int64) error {
	if p.sandbox == "" {
		return nil
	}
	var stopErr error
	if p.container != "" {
		_, stopErr = p.b.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: p.container, Timeout: grace})
	}
	_, err := p.b.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.sandbox})
	return errors.Join(stopErr, err)
}

// remove does nothing for a pod whose sandbox was not made.
func (p *bareWindowsPod) remove(ctx context.Context) error {
	if p.sandbox == "" {
		return nil
	}
	_, err := p.b.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	return err
}

// bareBatch makes n pods with the runtime alone and removes them. It returns the seconds until the last has started,
// and the pods, which say what each call took.
func (b *windowsPods) bareBatch(ctx context.Context, n int) (float64, []*bareWindowsPod, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience(n))
	defer cancel()
	pods := make([]*bareWindowsPod, n)
	errs := make([]error, n)
	for i := range pods {
		pods[i] = b.bare()
	}

	var all sync.WaitGroup
	began := time.Now()
	for i, p := range pods {
		all.Go(func() { errs[i] = p.start(ctx) })
	}
	all.Wait()
	took := time.Since(began).Seconds()

	// Pods that failed to start are removed as well.
	for i, p := range pods {
		all.Go(func() { errs[i] = errors.Join(errs[i], p.stop(ctx, 0), p.remove(ctx)) })
	}
	all.Wait()
	return took, pods, errors.Join(errs...)
}
