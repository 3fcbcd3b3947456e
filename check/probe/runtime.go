package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/kubelet/runtime"
)

// Bounds of calls of a container runtime.
const (
	callLimit = time.Minute      // one call; making a sandbox takes the longest
	pullLimit = 20 * time.Minute // the pull of an image; base images of Windows have gigabytes
)

// runtimeProbe is one run.
type runtimeProbe struct {
	*recorder
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	opts    Options
}

// RunRuntime asks the container runtime at o.Runtime.Endpoint. With o.Changes and an image it also makes pods. An
// error means that the runtime does not answer.
func RunRuntime(ctx context.Context, o Options) (check.Report, error) {
	r := newRecorder("runtime", o)
	if o.Runtime.Endpoint == "" {
		o.Runtime.Endpoint = DefaultEndpoint
	}
	r.spellings(ctx, o.Runtime.Endpoint)
	conn, err := runtime.Dial(o.Runtime.Endpoint)
	if err != nil {
		return r.report, err
	}
	defer conn.Close()

	p := &runtimeProbe{recorder: r, runtime: cri.NewRuntimeServiceClient(conn), images: cri.NewImageServiceClient(conn),
		opts: o}
	if err := p.version(ctx); err != nil {
		return r.report, fmt.Errorf("no container runtime answers at %s (--runtime-endpoint names another address): %w",
			o.Runtime.Endpoint, err)
	}
	p.calls(ctx)
	if o.Changes && o.Runtime.Image != "" {
		p.guarded("pods", func() { p.pods(ctx) })
	}
	return p.finish(ctx), ctx.Err()
}

// spellings calls the runtime at each spelling of its pipe's address. It does nothing for other kinds of addresses.
func (r *recorder) spellings(ctx context.Context, endpoint string) {
	name := endpoint[strings.LastIndexAny(endpoint, `/\`)+1:]
	if !strings.HasPrefix(endpoint, "npipe:") {
		return
	}
	for _, prefix := range []string{"npipe:////./pipe/", "npipe://./pipe/", "npipe:///pipe/", `npipe:\\.\pipe\`} {
		_ = r.try("dial."+prefix, func() error {
			conn, err := runtime.Dial(prefix + name)
			if err != nil {
				return err
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			_, err = cri.NewRuntimeServiceClient(conn).Version(ctx, &cri.VersionRequest{})
			return err
		})
	}
}

// version shows whether the runtime answers; the other questions are not asked if it does not.
func (p *runtimeProbe) version(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := p.ask("runtime.version", func() (string, error) {
		v, err := p.runtime.Version(ctx, &cri.VersionRequest{})
		return v.GetRuntimeName() + " " + v.GetRuntimeVersion(), err
	})
	return err
}

// calls records which calls the runtime implements.
func (p *runtimeProbe) calls(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()

	_ = p.try("call.ListPodSandboxStats", func() error {
		_, err := p.runtime.ListPodSandboxStats(ctx, &cri.ListPodSandboxStatsRequest{})
		return err
	})
	_ = p.try("call.ListContainerStats", func() error {
		_, err := p.runtime.ListContainerStats(ctx, &cri.ListContainerStatsRequest{})
		return err
	})
	_ = p.try("call.ListMetricDescriptors", func() error {
		_, err := p.runtime.ListMetricDescriptors(ctx, &cri.ListMetricDescriptorsRequest{})
		return err
	})

	_ = p.try("call.GetContainerEvents", func() error {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		stream, err := p.runtime.GetContainerEvents(short, &cri.GetEventsRequest{}, grpc.WaitForReady(false))
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) == codes.DeadlineExceeded || errors.Is(err, io.EOF) {
			return nil // the call exists, and there was no event
		}
		return err
	})
}

// pods asks the questions that need pods. It makes a sandbox with containers, and another sandbox that it removes at
// once.
func (p *runtimeProbe) pods(ctx context.Context) {
	// The logs of the probe's containers are in a folder of their own, which is removed with the
	// sandboxes.
	logs, err := os.MkdirTemp("", "porthole-check-")
	if p.try("logs.folder", func() error { return err }) != nil {
		return
	}
	p.made("folder "+logs, func(context.Context) error { return os.RemoveAll(logs) })
	err = p.try("image.pull", func() error {
		ctx, cancel := context.WithTimeout(ctx, pullLimit)
		defer cancel()
		_, err := p.images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: p.opts.Runtime.Image}})
		return err
	})
	if err != nil {
		return
	}

	// One sandbox serves for all questions but that of churn.
	config, sandbox, err := p.sandbox(ctx, "sandbox.run", "first", logs)
	if err != nil {
		return
	}
	_, _ = p.ask("sandbox.address", func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		s, err := p.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox})
		return cmp.Or(s.GetStatus().GetNetwork().GetIp(), "none"), err
	})
	p.hostProcess(ctx, config, sandbox)
	p.exit(ctx, config, sandbox)
	p.log(ctx, config, sandbox)
	p.churn(ctx, logs)
}

// sandbox runs a sandbox and reports the outcome under line. The UID differs from run to run, because containerd may
// still hold the name of a sandbox that an earlier run left. The end of the probe removes the sandbox.
func (p *runtimeProbe) sandbox(ctx context.Context, line, name, logs string) (config *cri.PodSandboxConfig, id string,
	err error) {
	config = &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: "porthole-check-" + name, Namespace: "porthole-check",
			Uid: fmt.Sprintf("porthole-check-%s-%d", name, time.Now().UnixNano())},
		LogDirectory: logs,
		Windows:      &cri.WindowsPodSandboxConfig{SecurityContext: &cri.WindowsSandboxSecurityContext{}},
	}
	err = p.try(line, func() error {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		answer, err := p.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
		id = answer.GetPodSandboxId()
		return err
	})
	if err == nil {
		p.made("sandbox "+id, func(ctx context.Context) error { return p.remove(ctx, id) })
	}
	return config, id, err
}

// remove stops and removes a sandbox with its containers.
func (p *runtimeProbe) remove(ctx context.Context, sandbox string) error {
	_, stopped := p.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: sandbox})
	_, removed := p.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox})
	return errors.Join(stopped, removed)
}

// container makes a container in the sandbox and starts it. It is removed with the sandbox.
func (p *runtimeProbe) container(ctx context.Context, config *cri.PodSandboxConfig, sandbox string,
	c *cri.ContainerConfig) (string, error) {
	c.Image = &cri.ImageSpec{Image: p.opts.Runtime.Image}
	c.LogPath = c.Metadata.Name + ".log"
	made, err := p.runtime.CreateContainer(ctx,
		&cri.CreateContainerRequest{PodSandboxId: sandbox, Config: c, SandboxConfig: config})
	if err != nil {
		return "", err
	}
	_, err = p.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId})
	return made.ContainerId, err
}

// hostProcess records whether the runtime refuses a HostProcess container in a sandbox without HostProcess.
func (p *runtimeProbe) hostProcess(ctx context.Context, config *cri.PodSandboxConfig, sandbox string) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := p.container(ctx, config, sandbox,
		&cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "hostprocess"},
			Command: []string{"cmd", "/c", "exit 0"},
			Windows: &cri.WindowsContainerConfig{
				SecurityContext: &cri.WindowsContainerSecurityContext{HostProcess: true}}})
	line := check.Line{Name: "hostprocess.container-only", Value: "accepted"}
	if err != nil {
		line.Value, line.Error = "refused", err.Error()
	}
	p.add(line)
}

// exit runs a program that ends at once with a code of more than 8 bits.
func (p *runtimeProbe) exit(ctx context.Context, config *cri.PodSandboxConfig, sandbox string) {
	id := ""
	err := p.try("container.start", func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		id, err = p.container(ctx, config, sandbox,
			&cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "exit"},
				Command: []string{"cmd", "/c", "exit 300"}})
		return err
	})
	if err != nil {
		return
	}

	exitCode := int32(0)
	ended := p.seconds(ctx, "exit.seconds", callLimit, func() bool {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		s, err := p.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
		exitCode = s.GetStatus().GetExitCode()
		return err == nil && s.GetStatus().GetState() == cri.ContainerState_CONTAINER_EXITED
	})
	if ended {
		p.value("exit.code", fmt.Sprint(exitCode))
	}
}

// log renames the log of a running container, as its rotation does.
func (p *runtimeProbe) log(ctx context.Context, config *cri.PodSandboxConfig, sandbox string) {
	_ = p.try("log.rename", func() error {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		id, err := p.container(ctx, config, sandbox,
			&cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "talk"},
				Command: []string{"cmd", "/c", "echo one & ping -n 60 127.0.0.1"}})
		if err != nil {
			return err
		}
		log := filepath.Join(config.LogDirectory, "talk.log")
		if err := os.Rename(log, log+".1"); err != nil {
			return err
		}
		_, err = p.runtime.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: id})
		return err
	})
}

// churn counts how many listings of statistics fail while a sandbox is made and removed.
func (p *runtimeProbe) churn(ctx context.Context, logs string) {
	ctx, cancel := context.WithTimeout(ctx, 2*callLimit)
	defer cancel()
	// The sandbox is made beside the listings; left is why it could not be removed.
	done, left := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		answer, err := p.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: &cri.PodSandboxConfig{
			Metadata: &cri.PodSandboxMetadata{Name: "porthole-check-churn", Namespace: "porthole-check",
				Uid: "porthole-check-churn"},
			LogDirectory: logs, Windows: &cri.WindowsPodSandboxConfig{},
		}})
		if err != nil {
			return
		}
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		defer cancel()
		left = p.remove(undoing, answer.PodSandboxId)
	}()

	failures, text := 0, ""
	for range 20 {
		if _, err := p.runtime.ListPodSandboxStats(ctx, &cri.ListPodSandboxStatsRequest{}); err != nil {
			failures, text = failures+1, err.Error()
		}
		select {
		case <-done:
		case <-time.After(100 * time.Millisecond):
		}
	}
	<-done
	if left != nil {
		p.report.Left = append(p.report.Left, fmt.Sprintf("sandbox porthole-check-churn: %v", left))
	}
	p.add(check.Line{Name: "stats.failures", Value: fmt.Sprint(failures), Error: text})
}
