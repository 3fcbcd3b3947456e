package kubelet

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	core "porthole.dev/porthole/kubelet"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/logs"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// evictionSettings returns what the configuration says about eviction.
func evictionSettings(cfg *v1beta1.KubeletConfiguration) (evict.Desired, error) {
	list, err := evict.Parse(evict.Settings{Hard: cfg.EvictionHard, Soft: cfg.EvictionSoft, SoftGrace: cfg.EvictionSoftGracePeriod,
		MinimumReclaim: cfg.EvictionMinimumReclaim, Allocatable: !platform.IsWindows && slices.Contains(cfg.EnforceNodeAllocatable, "pods")})
	return evict.Desired{Thresholds: list, Transition: cfg.EvictionPressureTransitionPeriod.Duration,
		MaxGrace: time.Duration(cfg.EvictionMaxPodGracePeriod) * time.Second, LocalLimits: *cfg.LocalStorageCapacityIsolation}, err
}

// leftReader reads what is left on this machine, and what pods use of it.
type leftReader struct {
	root string // the kubelet's folder, which is on the node's own file system
	// folders asks where images and the layers of containers are; disk reads a file system, usage the machine, same whether two folders
	// are on one file system. Tests replace them.
	folders func(context.Context) (images, layers string, err error)
	disk    func(string) (platform.Disk, error)
	usage   func(string) (platform.Usage, error)
	same    func(a, b string) (bool, error)
	// pods reads the working set of all pods together, podsLimit is what they may have; nil where nobody counts it.
	pods      func() (uint64, error)
	podsLimit uint64

	stats interface { // of the runtime
		PodStats(ctx context.Context) ([]statsapi.PodStats, error)
	}
	volumes func(types.UID) []volume.Usage

	images, layers string // as the runtime named them; empty until it answers
}

func newLeftReader(cfg *v1beta1.KubeletConfiguration, o *core.Options, rt *runtime.Runtime, volumes *volume.Manager) (*leftReader, error) {
	r := &leftReader{root: o.RootDir, folders: o.ImageGC.Folders, disk: platform.ReadDisk, usage: platform.ReadUsage, same: platform.SameDisk,
		stats: runtime.Stats{Runtime: rt.Client(), Images: o.ImageGC.Images}, volumes: volumes.Usage}
	if tree, ok := o.Cgroups.(cgroup.Tree); ok {
		most, err := forPods(cfg, o.Node.Host, 0)
		if err != nil {
			return nil, err
		}
		r.pods, r.podsLimit = tree.Memory, uint64(most.Memory().Value())
	}
	return r, nil
}

// Left reads what is left. As long as the runtime does not say where images are, nothing is known about their file system.
func (r *leftReader) Left(ctx context.Context) (evict.Left, error) {
	node, err := r.usage(r.root)
	if err != nil && node.MemoryTotal == 0 && node.DiskTotal == 0 {
		return evict.Left{}, err
	}
	if err != nil { // what is missing has no whole, and is unknown
		klog.FromContext(ctx).Error(err, "What is left on the node is known in part")
	}
	out := evict.Left{Levels: levelsOf(node, time.Now())}
	if r.images == "" {
		r.images, r.layers, _ = r.folders(ctx) // a runtime that does not answer yet is asked again
	}
	if r.images != "" {
		r.addImages(&out)
	}
	if r.pods != nil {
		if used, err := r.pods(); err == nil { // there is nothing to read before the first pod
			out.Levels[evict.AllocatableMemory] = evict.Level{Left: r.podsLimit - min(r.podsLimit, used), Whole: r.podsLimit, At: time.Now()}
		}
	}
	return out, nil
}

// addImages adds the file systems of images and layers. Folders that are not on this machine are unknown.
func (r *leftReader) addImages(out *evict.Left) {
	disk, err := r.disk(r.images)
	if err != nil {
		return
	}
	together, err := r.same(r.root, r.images)
	if err != nil {
		return
	}
	now := time.Now()
	out.Levels[evict.ImageFsAvailable], out.Levels[evict.ImageFsInodesFree] = diskLevels(disk, now)
	out.ImagesApart = !together
	if layersHere, err := r.same(r.root, r.layers); err == nil && out.ImagesApart {
		out.LayersApart = layersHere
	}

	from := [2]string{evict.NodeFsAvailable, evict.NodeFsInodesFree}
	if out.ImagesApart && !out.LayersApart {
		from = [2]string{evict.ImageFsAvailable, evict.ImageFsInodesFree}
	}
	out.Levels[evict.ContainerFsAvailable], out.Levels[evict.ContainerFsInodesFree] = out.Levels[from[0]], out.Levels[from[1]]
}

// levelsOf returns what a reading of the machine says: memory, the node's own file system, process ids.
func levelsOf(node platform.Usage, now time.Time) map[string]evict.Level {
	memory := evict.Level{Left: node.MemoryTotal - min(node.MemoryTotal, node.MemoryWorkingSet), Whole: node.MemoryTotal, At: now}
	if node.CommitLimit > 0 { // Windows: memory that was promised counts, used or not
		memory.Left, memory.Whole = node.CommitLimit-min(node.CommitLimit, node.CommitTotal), node.CommitLimit
	}
	out := map[string]evict.Level{
		evict.MemoryAvailable: memory,
		evict.PIDAvailable:    {Left: node.MaxTasks - min(node.MaxTasks, node.Tasks), Whole: node.MaxTasks, At: now}, // Windows has no maximum
	}
	out[evict.NodeFsAvailable], out[evict.NodeFsInodesFree] = diskLevels(node.Disk, now)
	return out
}

func diskLevels(d platform.Disk, now time.Time) (space, inodes evict.Level) {
	return evict.Level{Left: d.DiskAvailable, Whole: d.DiskTotal, At: now}, evict.Level{Left: d.InodesFree, Whole: d.Inodes, At: now}
}

// Usage reads what pods use now: memory and layers from the runtime, logs and volumes from disk.
func (r *leftReader) Usage(ctx context.Context, pods []pod.View) (map[types.UID]*evict.Usage, error) {
	list, err := r.stats.PodStats(ctx)
	if err != nil {
		return nil, err
	}
	byUID := map[types.UID]*statsapi.PodStats{}
	for i := range list {
		byUID[types.UID(list[i].PodRef.UID)] = &list[i]
	}

	out := map[types.UID]*evict.Usage{}
	for _, v := range pods {
		if s := byUID[v.Pod.UID]; s != nil {
			out[v.Pod.UID] = usageOf(s, &v, r.volumes(v.Pod.UID))
		}
	}
	return out, nil
}

// usageOf puts together what one pod uses.
func usageOf(s *statsapi.PodStats, v *pod.View, volumes []volume.Usage) *evict.Usage {
	u := &evict.Usage{}
	if s.Memory != nil {
		u.Memory = s.Memory.WorkingSetBytes
	}
	if p := s.ProcessStats; p != nil && p.ProcessCount != nil {
		u.Processes = *p.ProcessCount
	}

	for i := range s.Containers {
		c := &s.Containers[i]
		one := evict.ContainerUsage{Name: c.Name}
		if c.Memory != nil {
			one.Memory = c.Memory.WorkingSetBytes
		}
		if c.Rootfs != nil {
			one.Layer = c.Rootfs.UsedBytes
			if n := c.Rootfs.InodesUsed; n != nil {
				one.LayerObjects = *n
			}
		}
		if path := v.Containers[c.Name].LogPath; path != "" {
			bytes, files := logs.Size(filepath.Dir(path))
			one.Logs, one.LogObjects = &bytes, files
		}
		u.Containers = append(u.Containers, one)
	}

	for _, vol := range volumes {
		if vol.Local { // one in memory cannot exceed its limit: its file system has that size
			u.Volumes = append(u.Volumes, evict.VolumeUsage{Name: vol.Name, Bytes: vol.UsedBytes, Objects: vol.UsedInodes})
		}
	}
	return u
}
