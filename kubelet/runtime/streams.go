package runtime

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/serve"
)

// NewStats reads usage over a connection to the runtime.
func NewStats(conn grpc.ClientConnInterface) Stats {
	return Stats{Runtime: cri.NewRuntimeServiceClient(conn), Images: cri.NewImageServiceClient(conn)}
}

// Streams asks the runtime for addresses of its streaming server.
type Streams struct{ client cri.RuntimeServiceClient }

// NewStreams asks over a connection to the runtime.
func NewStreams(conn grpc.ClientConnInterface) Streams {
	return Streams{client: cri.NewRuntimeServiceClient(conn)}
}

// ExecURL prepares a command in a container.
func (s Streams) ExecURL(ctx context.Context, r serve.ExecRequest) (string, error) {
	resp, err := s.client.Exec(ctx,
		&cri.ExecRequest{ContainerId: r.ContainerID, Cmd: r.Command, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
			Tty: r.TTY})
	if err != nil {
		return "", fmt.Errorf("preparing a command in container %s: %w", r.ContainerID, err)
	}
	return resp.GetUrl(), nil
}

// AttachURL prepares to join the streams of a container.
func (s Streams) AttachURL(ctx context.Context, r serve.ExecRequest) (string, error) {
	resp, err := s.client.Attach(ctx,
		&cri.AttachRequest{ContainerId: r.ContainerID, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Tty: r.TTY})
	if err != nil {
		return "", fmt.Errorf("preparing to attach to container %s: %w", r.ContainerID, err)
	}
	return resp.GetUrl(), nil
}

// PortForwardURL prepares to reach ports of a sandbox.
func (s Streams) PortForwardURL(ctx context.Context, sandboxID string, ports []int32) (string, error) {
	resp, err := s.client.PortForward(ctx, &cri.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	if err != nil {
		return "", fmt.Errorf("preparing to forward ports of sandbox %s: %w", sandboxID, err)
	}
	return resp.GetUrl(), nil
}
