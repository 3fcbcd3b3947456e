package runtime

import (
	"context"
	"slices"
	"testing"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// left is the orphaned task of a container. It records the calls about it.
type left struct {
	tasks.UnimplementedTasksServer
	kill  error // what killing its process answers
	calls []string
}

// cutShort is a runtime with one container, which can be removed once the task is gone.
type cutShort struct {
	service
	left *left
}

func (c *cutShort) RemoveContainer(context.Context, *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	if !slices.Contains(c.left.calls, "delete c0") {
		return nil, status.Error(codes.FailedPrecondition, "cannot delete running task c0")
	}
	return &cri.RemoveContainerResponse{}, nil
}

func (c *left) Kill(ctx context.Context, r *tasks.KillRequest) (*emptypb.Empty, error) {
	if in, _ := metadata.FromIncomingContext(ctx); !slices.Equal(in.Get("containerd-namespace"), []string{"k8s.io"}) ||
		r.Signal != 9 || !r.All {
		return nil, status.Errorf(codes.InvalidArgument, "%v %v", in, r)
	}
	c.calls = append(c.calls, "kill "+r.ContainerID)
	return &emptypb.Empty{}, c.kill
}

func (c *left) Wait(_ context.Context, r *tasks.WaitRequest) (*tasks.WaitResponse, error) {
	c.calls = append(c.calls, "wait "+r.ContainerID)
	return &tasks.WaitResponse{}, nil
}

func (c *left) Delete(_ context.Context, r *tasks.DeleteTaskRequest) (*tasks.DeleteResponse, error) {
	c.calls = append(c.calls, "delete "+r.ContainerID)
	return &tasks.DeleteResponse{}, nil
}

// TestRemoveContainerWithTask: the task is deleted first, whether its process still waits or has ended. Without an API
// of tasks, the error of the runtime remains.
func TestRemoveContainerWithTask(t *testing.T) {
	for _, c := range []struct {
		name  string
		kill  error
		tasks bool
		calls []string
		want  codes.Code
	}{
		{"its process waits", nil, true, []string{"kill c0", "wait c0", "delete c0"}, codes.OK},
		{"its process has ended", status.Error(codes.NotFound, "process already finished"), true,
			[]string{"kill c0", "delete c0"}, codes.OK},
		{"its process cannot be killed", status.Error(codes.Internal, "no"), true, []string{"kill c0"},
			codes.FailedPrecondition},
		{"no tasks", nil, false, nil, codes.FailedPrecondition},
	} {

		task := &left{kill: c.kill}
		r := runtimeOn(t, Options{}, func(server *grpc.Server) {
			cri.RegisterRuntimeServiceServer(server, &cutShort{left: task})
			if c.tasks {
				tasks.RegisterTasksServer(server, task)
			}
		})
		err := r.RemoveContainer(context.Background(), "c0")
		if got := status.Code(err); got != c.want || !slices.Equal(task.calls, c.calls) {
			t.Errorf("%s: %v after %v, want %v after %v", c.name, err, task.calls, c.want, c.calls)
		}
	}
}
