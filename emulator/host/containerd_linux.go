package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	taskapi "github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"porthole.dev/porthole/internal/slow"
)

// Item is one thing that a container runtime has.
type Item struct {
	ID string `json:"id"`
	// image of a container, status of a task, digest of an image, parent of a snapshot
	Detail string `json:"detail,omitempty"`
}

// InventoryKinds are the words that Inventory knows.
var InventoryKinds = []string{"containers", "tasks", "images", "snapshots"}

// Inventory lists what the containerd of a cluster's node, or of a host with containerd.exe, has for Kubernetes,
// sorted by id. The node may be a Linux one.
func (h Host) Inventory(ctx context.Context, kind string) ([]Item, error) {
	client, snapshotter, err := containerdOf(h)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	items, err := inventory(namespaces.WithNamespace(ctx, "k8s.io"), client, snapshotter, kind)
	if err != nil {
		return nil, fmt.Errorf("listing %s of host %s: %w", kind, h.Name, err)
	}
	sort.Slice(items, func(i, j int) bool { return items[i].ID < items[j].ID })
	return items, nil
}

// containerdOf returns a client of the host's containerd, which the caller closes, and the name of its snapshotter.
func containerdOf(h Host) (client *containerd.Client, snapshotter string, err error) {
	if h.Runtime == ContainerdExe {
		client, err = runtimeClient(h)
		return client, "windows", err
	}
	socket := filepath.Join(h.Dir, "containerd", "containerd.sock")
	if _, err := os.Stat(socket); err != nil {
		return nil, "", fmt.Errorf("host %s has no container runtime; nodes of a running cluster have one", h.Name)
	}
	client, err = containerd.New(socket, containerd.WithTimeout(slow.Limit(5*time.Second)))
	if err != nil {
		return nil, "", fmt.Errorf("containerd of host %s: %w", h.Name, err)
	}
	return client, "overlayfs", nil
}

// inventory lists what containerd has of one kind in the namespace of ctx. The list is never nil.
func inventory(ctx context.Context, client *containerd.Client, snapshotter, kind string) ([]Item, error) {
	items := []Item{}

	switch kind {
	case "containers":
		list, err := client.ContainerService().List(ctx)
		for _, c := range list {
			items = append(items, Item{c.ID, c.Image})
		}
		return items, err
	case "tasks":
		list, err := client.TaskService().List(ctx, &taskapi.ListTasksRequest{})
		for _, t := range list.GetTasks() {
			items = append(items, Item{t.ID, fmt.Sprintf("%s pid %d", t.Status, t.Pid)})
		}
		return items, err
	case "images":
		list, err := client.ImageService().List(ctx)
		for _, i := range list {
			items = append(items, Item{i.Name, i.Target.Digest.String()})
		}
		return items, err
	case "snapshots":
		err := client.SnapshotService(snapshotter).Walk(ctx, func(_ context.Context, i snapshots.Info) error {
			items = append(items, Item{i.Name, i.Parent})
			return nil
		})
		return items, err
	}
	return nil, fmt.Errorf("unknown kind; known are %v", InventoryKinds)
}
