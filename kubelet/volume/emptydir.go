package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// emptyDirKind is the kind of volumes that begin empty and live as long as the pod: on disk, in memory, or of huge
// pages.
type emptyDirKind struct{ inFolder }

func (emptyDirKind) of(v *v1.Volume) bool { return v.EmptyDir != nil }

// usage marks what is on disk as local: it counts against the node's and the pod's ephemeral storage.
func (k emptyDirKind) usage(ctx context.Context, j job) (measure.Usage, bool) {
	dir := k.dir(j)
	if u, own := measure.FileSystem(dir); own {
		return u, true
	}
	u := measure.Files(ctx, dir)
	u.Local = j.volume.EmptyDir.Medium == v1.StorageMediumDefault
	return u, true
}

// prepare makes the folder, or mounts memory or huge pages on it. It may be repeated. The size limit bounds a volume
// in memory; on disk it is checked by measuring the usage.
func (k emptyDirKind) prepare(_ context.Context, j job) error {
	dir, source := k.dir(j), j.volume.EmptyDir
	switch {
	case source.Medium == v1.StorageMediumMemory:
		// As with upstream, which leaves the mode that the kernel gives such a file system: nobody removes files of
		// others.
		return disk.MountMemory(dir, memorySize(j.pod, source.SizeLimit, j.facts), 0o777|os.ModeSticky, j.group())
	case strings.HasPrefix(string(source.Medium), string(v1.StorageMediumHugePages)):
		page, err := hugePage(j.pod, source.Medium)
		if err != nil {
			return err
		}
		return disk.MountHuge(dir, page, j.group())
	case source.Medium != v1.StorageMediumDefault:
		return fmt.Errorf("unknown storage medium %q", source.Medium)
	}
	return makeEmptyDir(dir, j)
}

// makeEmptyDir makes the folder unless it exists: containers may have changed its mode since. It appears under its name
// in one step, complete.
func makeEmptyDir(dir string, j job) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for volume folder: %w", err)
	}

	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}
	// The folder is made under another name, which no container's path can be.
	stage, err := os.MkdirTemp(parent, "..new-")
	if err != nil {
		return fmt.Errorf("making volume folder: %w", err)
	}

	err = os.Chmod(stage, 0o777)
	if group := j.group(); err == nil && group != nil {
		err = disk.SetGroup(stage, *group, j.pod.Spec.SecurityContext.FSGroupChangePolicy)
	}
	if err == nil {
		err = disk.RetryBusy(func() error { return os.Rename(stage, dir) })
	}
	if err != nil {
		_ = os.Remove(stage)
		return fmt.Errorf("making volume folder: %w", err)
	}
	return nil
}

// memorySize returns the size in bytes of a volume in memory: the smallest of limit, the pod's memory limit and the
// node's memory. 0 means that none of them is known.
func memorySize(pod *v1.Pod, limit *resource.Quantity, facts Facts) int64 {
	size := int64(0)
	lower := func(n int64) {
		if n > 0 && (size == 0 || n < size) {
			size = n
		}
	}

	if q, ok := facts.Allocatable[v1.ResourceMemory]; ok {
		lower(q.Value())
	}
	lower(podMemoryLimit(pod))
	if limit != nil {
		lower(limit.Value())
	}
	return size
}

// podMemoryLimit returns the pod's memory limit in bytes: its own, or the larger of the sum over its containers
// (sidecars included) and its largest init container. It returns 0 if one container has no limit.
func podMemoryLimit(pod *v1.Pod) int64 {
	if r := pod.Spec.Resources; r != nil {
		if q, ok := r.Limits[v1.ResourceMemory]; ok {
			return q.Value()
		}
	}

	// Sidecars run beside the containers; of other init containers only one runs at a time.
	var sum, largest int64
	for _, c := range pod.Spec.Containers {
		q, ok := c.Resources.Limits[v1.ResourceMemory]
		if !ok {
			return 0
		}
		sum += q.Value()
	}

	for _, c := range pod.Spec.InitContainers {
		q, ok := c.Resources.Limits[v1.ResourceMemory]
		if !ok {
			return 0
		}
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			sum += q.Value()
			continue
		}
		largest = max(largest, q.Value())
	}
	return max(sum, largest)
}

// hugePage returns the page size in bytes: the one that medium names, else the only one that the pod's containers
// request.
func hugePage(pod *v1.Pod, medium v1.StorageMedium) (int64, error) {
	if text, ok := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)); ok {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return 0, fmt.Errorf("storage medium %q: %w", medium, err)
		}
		return q.Value(), nil
	}

	// Without a size in the medium the containers must leave no choice.
	sizes := map[int64]bool{}
	for _, c := range append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		for name := range c.Resources.Requests {
			if text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
				if q, err := resource.ParseQuantity(text); err == nil {
					sizes[q.Value()] = true
				}
			}
		}
	}

	if len(sizes) != 1 {
		return 0, fmt.Errorf("medium %q needs containers that ask for exactly one huge page size; they ask for %d",
			medium, len(sizes))
	}
	for size := range sizes {
		return size, nil
	}
	return 0, nil
}
