package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	containers "github.com/containerd/containerd/api/services/containers/v1"
	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// What containerd keeps of pods is in this namespace of its own interface.
const (
	namespaceKey   = "containerd-namespace"
	namespaceOfCRI = "k8s.io"
)

// endTimeout bounds how long the process of a left-over task may take to end.
const endTimeout = 10 * time.Second

// endTask ends and deletes containerd's task of a container or sandbox that CRI cannot remove any more.
//
// When the caller of a start dies, containerd cancels the start at whatever it is doing. If the task has just been made
// (2.3: Create of plugins/services/tasks/local.go, which then asks for the task's PID with the cancelled context), CRI
// takes the start for one that has made nothing. The task stays; CRI never deletes it, and refuses to remove a container
// that has a task. No call of CRI reaches such a task, hence containerd's own interface. A runtime that does not have it
// has no such tasks either.
func (r *Runtime) endTask(ctx context.Context, id string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceKey, namespaceOfCRI)
	client := tasks.NewTasksClient(r.conn)
	const kill = 9
	_, err := client.Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: kill, All: true})
	switch status.Code(err) {
	case codes.OK:
		ended, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		_, _ = client.Wait(ended, &tasks.WaitRequest{ContainerID: id}) // the deletion tells whether it has ended
	case codes.NotFound, codes.Unimplemented:
		// NotFound is also what a process that has ended answers: its task may still be there
	case codes.FailedPrecondition: // it has ended
	default:
		return fmt.Errorf("killing the task of %s: %w", id, err)
	}
	_, err = client.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if code := status.Code(err); err != nil && code != codes.NotFound && code != codes.Unimplemented {
		return fmt.Errorf("deleting the task of %s: %w", id, err)
	}
	return nil
}

// forgotten removes what containerd keeps under the id of a sandbox that CRI has removed. There is nothing, unless a start
// was cut short as endTask tells: then CRI drops the sandbox and keeps its task, with a process and a mount.
func (r *Runtime) forgotten(ctx context.Context, id string) error {
	named := metadata.AppendToOutgoingContext(ctx, namespaceKey, namespaceOfCRI)
	client := containers.NewContainersClient(r.conn)
	left, err := client.Get(named, &containers.GetContainerRequest{ID: id})
	if code := status.Code(err); code == codes.NotFound || code == codes.Unimplemented {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for what is left of %s: %w", id, err)
	}
	if err := r.endTask(ctx, id); err != nil {
		return err
	}
	c := left.GetContainer()
	_, err = snapshots.NewSnapshotsClient(r.conn).Remove(named, &snapshots.RemoveSnapshotRequest{Snapshotter: c.GetSnapshotter(), Key: c.GetSnapshotKey()})
	if status.Code(err) == codes.NotFound {
		err = nil
	}
	_, err2 := client.Delete(named, &containers.DeleteContainerRequest{ID: id})
	if status.Code(err2) == codes.NotFound {
		err2 = nil
	}
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("removing what is left of %s: %w", id, err)
	}
	return nil
}
