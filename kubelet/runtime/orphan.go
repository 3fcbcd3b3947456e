package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	containers "github.com/containerd/containerd/api/services/containers/v1"
	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
)

// containerd's own API keeps the containers of CRI in this namespace.
const (
	namespaceKey   = "containerd-namespace"
	namespaceOfCRI = "k8s.io"
)

// endTimeout bounds how long the process of an orphaned task may take to end.
const endTimeout = 10 * time.Second

// containerd is what the runtime has beside CRI, if it is containerd: that reaches what CRI has forgotten.
type containerd struct {
	conn grpc.ClientConnInterface
	// began is when this kubelet began to call, and longest how long it waits for a container to be created and
	// started.
	began   time.Time
	longest time.Duration
}

// endTask kills and deletes the containerd task of a container or sandbox that CRI cannot remove.
//
// When the caller of a start dies, containerd cancels the start, whatever it is doing. If the task has just been
// created (2.3: Create of plugins/services/tasks/local.go, which then asks for the task's PID with the cancelled
// context), CRI assumes that nothing was created. The task stays. CRI never deletes it, and it refuses to remove a
// container that has a task. No CRI call reaches such a task, so this uses containerd's own API. A runtime without
// that API has no such tasks.
func (c containerd) endTask(ctx context.Context, id string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceKey, namespaceOfCRI)
	client := tasks.NewTasksClient(c.conn)
	const kill = 9
	_, err := client.Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: kill, All: true})
	switch status.Code(err) {
	case codes.OK:
		ended, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		_, _ = client.Wait(ended, &tasks.WaitRequest{ContainerID: id}) // the deletion fails if it has not ended
	case codes.NotFound, codes.Unimplemented:
		// also the answer for a process that has ended, whose task may still exist
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

// forgotten removes what containerd still has under the id of a sandbox that CRI has removed. There is something only
// if a start was cut short (see endTask): then CRI forgets the sandbox, and its task stays, with a process and a
// mount.
func (c containerd) forgotten(ctx context.Context, id string) error {
	left, err := c.leftContainer(ctx, id)
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	if left == nil || err != nil {
		return err
	}
	return c.removeLeft(ctx, left)
}

// leftContainer returns what containerd has under an id, nil if it has no such container.
func (c containerd) leftContainer(ctx context.Context, id string) (*containers.Container, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceKey, namespaceOfCRI)
	left, err := containers.NewContainersClient(c.conn).Get(ctx, &containers.GetContainerRequest{ID: id})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for what is left of %s: %w", id, err)
	}
	return left.GetContainer(), nil
}

// removeLeft ends the task of a container that CRI does not know, and removes the container with its snapshot.
func (c containerd) removeLeft(ctx context.Context, left *containers.Container) error {
	if err := c.endTask(ctx, left.GetID()); err != nil {
		return err
	}

	ctx = metadata.AppendToOutgoingContext(ctx, namespaceKey, namespaceOfCRI)
	_, err := snapshots.NewSnapshotsClient(c.conn).
		Remove(ctx, &snapshots.RemoveSnapshotRequest{Snapshotter: left.GetSnapshotter(), Key: left.GetSnapshotKey()})
	if status.Code(err) == codes.NotFound {
		err = nil
	}
	_, err2 := containers.NewContainersClient(c.conn).Delete(ctx, &containers.DeleteContainerRequest{ID: left.GetID()})
	if status.Code(err2) == codes.NotFound {
		err2 = nil
	}

	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("removing what is left of %s: %w", left.GetID(), err)
	}
	return nil
}

// UnmountForgotten removes the containers whose root file systems are mounted and which CRI does not know, and
// unmounts the root file systems of those that containerd does not know either. Both exist only if a start was cut
// short. Then CRI may forget a sandbox whose task runs (see endTask). And if the container's shim was mounting,
// containerd may drop the task and leave the mount until its own next start. undecided counts the containers that CRI
// may be creating, so that another call may find more.
func (r *Runtime) UnmountForgotten(ctx context.Context) (undecided int, err error) {
	if r.o.Windows {
		return 0, nil // Windows mounts nothing at folders
	}
	ctx, cancel := r.short(ctx)
	defer cancel()

	mounted, err := mountedTasks(ctx, r.client)
	if err != nil || len(mounted) == 0 {
		return 0, err
	}
	// The mounts were listed first: a container is known before its file system is mounted.
	if err := dropKnown(ctx, r.client, mounted); err != nil {
		return 0, err
	}

	var errs []error
	for id, paths := range mounted {
		wait, err := r.containerd.removeForgotten(ctx, id)
		if wait {
			undecided++
			klog.FromContext(ctx).V(2).
				Info("Kept a container that CRI does not know: it may be creating it", "container", id)
			continue
		}
		if err == nil {
			err = detachAll(paths) // no error for what went with the task
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		klog.FromContext(ctx).Info("Removed what a start that was cut short has left", "container", id, "path",
			paths[0], "mounts", len(paths))
	}
	return undecided, errors.Join(errs...)
}

// removeForgotten removes the task and the container that containerd has under an id that CRI does not list. wait is
// true if CRI may be creating the container, and then nothing is removed.
func (c containerd) removeForgotten(ctx context.Context, id string) (wait bool, err error) {
	left, err := c.leftContainer(ctx, id)
	if err != nil {
		return false, err
	}
	if left == nil {
		// a container is created before its task and deleted after it: no start comes to this
		return false, c.endTask(ctx, id)
	}
	if !c.cutShort(left, time.Now()) {
		return true, nil
	}
	return false, c.removeLeft(ctx, left)
}

// kindKey is a label that containerd's CRI gives to its containers, and to nobody else's in the same namespace (2.3:
// ContainerKindLabel of internal/cri/labels).
const kindKey = "io.cri-containerd.kind"

// cleanupTimeout is how long containerd cleans up after a start that was cut short (2.3: deferCleanupTimeout of
// internal/cri/util).
const cleanupTimeout = time.Minute

// cutShort reports whether a container that CRI does not list will never be listed: whoever had it created has gone,
// or waits no more. The first are the containers that were created before this kubelet's start: they are those of a
// kubelet that was killed.
func (c containerd) cutShort(left *containers.Container, now time.Time) bool {
	if left.GetLabels()[kindKey] == "" {
		return false
	}
	created := left.GetCreatedAt().AsTime()
	return created.Before(c.began) || now.Sub(created) > c.longest+cleanupTimeout
}

// detachAll unmounts each path once. A path that is listed twice has two mounts, one over the other.
func detachAll(paths []string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, platform.Detach(path))
	}
	return errors.Join(errs...)
}

// mountedTasks returns, by id, the mounts of the root file systems of CRI's tasks below this containerd's state
// folder: the same path once per mount. It returns nothing for other runtimes.
func mountedTasks(ctx context.Context, client cri.RuntimeServiceClient) (map[string][]string, error) {
	answer, err := client.Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return nil, fmt.Errorf("asking the runtime for its folders: %w", err)
	}
	var config struct {
		StateDir string `json:"stateDir"` // of the CRI plugin, a folder in containerd's own
	}
	if json.Unmarshal([]byte(answer.GetInfo()["config"]), &config) != nil || !filepath.IsAbs(config.StateDir) {
		return nil, nil
	}
	bundles := filepath.Join(filepath.Dir(config.StateDir), "io.containerd.runtime.v2.task", namespaceOfCRI)
	points, err := platform.MountPointsBelow(bundles)
	mounted := map[string][]string{}
	for _, p := range points {
		if id, name := filepath.Base(filepath.Dir(p)), filepath.Base(p); name == "rootfs" &&
			p == filepath.Join(bundles, id, name) {
			mounted[id] = append(mounted[id], p)
		}
	}
	return mounted, err
}

// dropKnown deletes the ids that CRI lists.
func dropKnown(ctx context.Context, client cri.RuntimeServiceClient, ids map[string][]string) error {
	boxes, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("listing sandboxes: %w", err)
	}
	list, err := client.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}
	for _, b := range boxes.Items {
		delete(ids, b.Id)
	}
	for _, c := range list.Containers {
		delete(ids, c.Id)
	}
	return nil
}
