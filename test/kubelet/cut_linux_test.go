package kubelet

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	containers "github.com/containerd/containerd/api/services/containers/v1"
	snapshots "github.com/containerd/containerd/api/services/snapshots/v1"
	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/runtime"
)

// testCutStart creates what containerd keeps of a start whose caller died: a task that CRI does not know. CRI does not
// remove its container, but the kubelet does. It removes the task also if CRI has forgotten container and sandbox, and
// without knowing its id if only the kubelet before it can have created it.
func testCutStart(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	conn, err := runtime.Dial("unix://" + w.Path("containerd", "containerd.sock"))
	must(t, err)
	defer conn.Close()
	rt := runtime.New(conn, runtime.Options{PodLogsDir: w.Path("log")})

	parent := w.CgroupRoot() + "/cut"
	box := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: "cut", Namespace: namespace, Uid: "cut"},
		LogDirectory: w.Path("log"),
		Linux:        &cri.LinuxPodSandboxConfig{CgroupParent: parent}}
	made, err := w.Runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: box})
	must(t, err)
	create := func(name string) string {
		t.Helper()
		c, err := w.Runtime.CreateContainer(ctx,
			&cri.CreateContainerRequest{PodSandboxId: made.PodSandboxId, SandboxConfig: box,
				Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: name},
					Image: &cri.ImageSpec{Image: testkit.TestImage},
					Args:  []string{"sleep"}, Linux: &cri.LinuxContainerConfig{}}})
		must(t, err)
		makeTask(t, ctx, conn, c.ContainerId)
		return c.ContainerId
	}

	lost := w.forget(t, "lost")
	w.forget(t, "lost") // a second mount over the first
	mounted, err := w.Mounts()
	must(t, err)
	_, err = rt.UnmountForgotten(ctx)
	must(t, err)
	now, err := w.Mounts()
	must(t, err)
	if want := slices.DeleteFunc(mounted, func(m string) bool { return m == lost }); !slices.Equal(now, want) {
		t.Errorf("mounted are %q, want %q: those of the sandbox too", now, want)
	}

	cut, swept, forgotten := create("cut"), create("swept"), create("forgotten")
	leaked := leak(t, ctx, conn, forgotten)
	if undecided, err := rt.UnmountForgotten(ctx); undecided != 1 || err != nil {
		t.Errorf("%d undecided (%v), want 1: CRI may be creating what was created after the kubelet's start", undecided,
			err)
	}
	next := runtime.New(conn, runtime.Options{PodLogsDir: w.Path("log")})
	if undecided, err := next.UnmountForgotten(ctx); undecided != 0 || err != nil {
		t.Errorf("%d undecided (%v), want what the kubelet before left removed", undecided, err)
	}
	_, err = w.Runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: cut})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("CRI removes a container with a task by itself: %v", err) // then the kubelet needs no orphan.go
	}
	must(t, rt.RemoveContainer(ctx, cut))
	must(t, rt.RemoveSandbox(ctx, forgotten)) // CRI does not know this sandbox, as after a start that was cut short
	must(t, rt.StopSandbox(ctx, made.PodSandboxId))
	must(t, rt.RemoveSandbox(ctx, made.PodSandboxId)) // with the container that is left in it

	named := inCRI(ctx)
	for _, id := range []string{cut, swept, forgotten, leaked} {
		_, err := tasks.NewTasksClient(conn).Get(named, &tasks.GetRequest{ContainerID: id})
		_, err2 := containers.NewContainersClient(conn).Get(named, &containers.GetContainerRequest{ID: id})
		_, err3 := snapshots.NewSnapshotsClient(conn).
			Stat(named, &snapshots.StatSnapshotRequest{Snapshotter: "overlayfs", Key: id})
		for what, err := range map[string]error{"task": err, "container": err2, "snapshot": err3} {
			if status.Code(err) != codes.NotFound {
				t.Errorf("the %s of %s is still there (%v)", what, id, err)
			}
		}
	}

	must(t, w.noMounts())
	must(t, cgroup.Remove(parent))
}

// forget mounts the root file system of a task that containerd does not know, and returns its path.
func (w *world) forget(t *testing.T, id string) string {
	t.Helper()
	path := w.Path("containerd", "state", "io.containerd.runtime.v2.task", "k8s.io", id, "rootfs")
	must(t, os.MkdirAll(path, 0o700))
	must(t, unix.Mount("tmpfs", path, "tmpfs", 0, ""))
	return path
}

// inCRI returns ctx for calls about what containerd keeps for CRI.
func inCRI(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
}

// leak copies a container of CRI under another id, with a task: CRI does not know it. It returns the id.
func leak(t *testing.T, ctx context.Context, conn grpc.ClientConnInterface, of string) string {
	t.Helper()
	named, id := inCRI(ctx), "leaked"
	client := containers.NewContainersClient(conn)
	c, err := client.Get(named, &containers.GetContainerRequest{ID: of})
	must(t, err)
	snaps := snapshots.NewSnapshotsClient(conn)
	snap, err := snaps.Stat(named, &snapshots.StatSnapshotRequest{Snapshotter: c.Container.Snapshotter, Key: of})
	must(t, err)
	_, err = snaps.Prepare(named,
		&snapshots.PrepareSnapshotRequest{Snapshotter: c.Container.Snapshotter, Key: id, Parent: snap.Info.Parent})
	must(t, err)

	c.Container.ID, c.Container.SnapshotKey = id, id
	// in the path of its cgroup
	c.Container.Spec.Value = bytes.ReplaceAll(c.Container.Spec.Value, []byte(of), []byte(id))
	_, err = client.Create(named, &containers.CreateContainerRequest{Container: c.Container})
	must(t, err)
	makeTask(t, ctx, conn, id)
	return id
}

// makeTask creates the task of a container, with a process that waits for its start, without CRI.
func makeTask(t *testing.T, ctx context.Context, conn grpc.ClientConnInterface, id string) {
	t.Helper()
	ctx = inCRI(ctx)
	c, err := containers.NewContainersClient(conn).Get(ctx, &containers.GetContainerRequest{ID: id})
	must(t, err)
	rootfs, err := snapshots.NewSnapshotsClient(conn).
		Mounts(ctx, &snapshots.MountsRequest{Snapshotter: c.Container.Snapshotter, Key: c.Container.SnapshotKey})
	must(t, err)
	_, err = tasks.NewTasksClient(conn).Create(ctx, &tasks.CreateTaskRequest{ContainerID: id, Rootfs: rootfs.Mounts})
	must(t, err)
}
