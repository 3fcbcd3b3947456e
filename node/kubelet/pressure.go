package kubelet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	resources "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/logs"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// evictionSettings returns what the configuration says about eviction.
func evictionSettings(cfg *v1beta1.KubeletConfiguration) (evict.Desired, error) {
	list, err := evict.Parse(evict.Settings{Hard: cfg.EvictionHard, Soft: cfg.EvictionSoft,
		SoftGrace:      cfg.EvictionSoftGracePeriod,
		MinimumReclaim: cfg.EvictionMinimumReclaim,
		Allocatable:    !platform.IsWindows && slices.Contains(cfg.EnforceNodeAllocatable, "pods")})
	return evict.Desired{Thresholds: list, Transition: cfg.EvictionPressureTransitionPeriod.Duration,
		MaxGrace:    time.Duration(cfg.EvictionMaxPodGracePeriod) * time.Second,
		LocalLimits: *cfg.LocalStorageCapacityIsolation}, err
}

// Bounds of one measurement of local storage: how long it takes in all, and how many pods are measured at the same
// time. A pod with very many files delays no other.
const (
	localTimeout  = 15 * time.Second
	localParallel = 4
)

// volumeUsage measures what pods have on the node's disk; volume.Measure does it.
type volumeUsage interface {
	LocalUsage(ctx context.Context, uid types.UID) []measure.Usage
	FileUsage(uid types.UID) measure.Usage
}

// leftReader reads what is left on this machine, and what pods use of it.
type leftReader struct {
	root string // the kubelet's folder, which is on the node's own file system
	// folders asks where images and the layers of containers are; disk reads a file system, usage the machine, same
	// whether two folders are on one file system. Tests replace them.
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
	volumes volumeUsage

	images, layers string // as the runtime named them; empty until it answers
}

// newLeftReader reads what is left of each resource; with cgroups also what the pods' limit leaves.
func (p *parts) newLeftReader() (*leftReader, error) {
	r := &leftReader{root: p.host.root, folders: p.images.unused.Folders, disk: platform.ReadDisk,
		usage:   platform.ReadUsage,
		same:    platform.SameDisk,
		stats:   runtime.Stats{Runtime: p.runtime.Client(), Images: p.images.unused.Images},
		volumes: volume.Measure{Of: p.volumes}}
	if p.cgroups != nil {
		most, err := forPods(p.cfg, p.host.Host, 0)
		if err != nil {
			return nil, err
		}
		r.pods = p.cgroups.Memory
		r.podsLimit = uint64(most.Memory().Value())
	}
	return r, nil
}

// Left reads what is left. As long as the runtime does not say where images are, nothing is known about their file
// system.
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
			out.Levels[evict.AllocatableMemory] = evict.Level{Left: r.podsLimit - min(r.podsLimit, used),
				Whole: r.podsLimit, At: time.Now()}
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
	out.Levels[evict.ContainerFsAvailable] = out.Levels[from[0]]
	out.Levels[evict.ContainerFsInodesFree] = out.Levels[from[1]]
}

// levelsOf returns what a reading of the machine says: memory, the node's own file system, process ids.
func levelsOf(node platform.Usage, now time.Time) map[string]evict.Level {
	memory := evict.Level{Left: node.MemoryTotal - min(node.MemoryTotal, node.MemoryWorkingSet),
		Whole: node.MemoryTotal, At: now}
	if node.CommitLimit > 0 { // Windows: memory that was promised counts, used or not
		memory.Left = node.CommitLimit - min(node.CommitLimit, node.CommitTotal)
		memory.Whole = node.CommitLimit
	}
	out := map[string]evict.Level{
		evict.MemoryAvailable: memory,
		// Windows has no maximum
		evict.PIDAvailable: {Left: node.MaxTasks - min(node.MaxTasks, node.Tasks), Whole: node.MaxTasks, At: now},
	}
	out[evict.NodeFsAvailable], out[evict.NodeFsInodesFree] = diskLevels(node.Disk, now)
	return out
}

// diskLevels are the levels of bytes and of inodes.
func diskLevels(d platform.Disk, now time.Time) (space, inodes evict.Level) {
	return evict.Level{Left: d.DiskAvailable, Whole: d.DiskTotal, At: now}, evict.Level{Left: d.InodesFree,
		Whole: d.Inodes, At: now}
}

// Usage reads what pods use now: memory and layers from the runtime, logs and volumes from disk.
func (r *leftReader) Usage(ctx context.Context, pods []pod.View) (map[types.UID]*evict.Usage, error) {
	list, err := r.stats.PodStats(ctx)
	if err != nil {
		return nil, err
	}
	known := byUID(list)
	pods = slices.DeleteFunc(slices.Clone(pods), func(v pod.View) bool { return known[v.Pod.UID] == nil })
	disk, _ := r.onDisk(ctx, pods)
	return together(pods, known, disk), nil
}

// LocalUsage reads what pods have on the node's disk. The runtime is asked only if one of them has a limit that counts
// the layers of its containers. If it does not answer in time, these are not known, and the rest counts nevertheless.
func (r *leftReader) LocalUsage(ctx context.Context, pods []pod.View) (map[types.UID]*evict.Usage, bool) {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	if !slices.ContainsFunc(pods, limitsLayers) {
		disk, whole := r.onDisk(ctx, pods)
		return together(pods, nil, disk), whole
	}

	var list []statsapi.PodStats
	var err error
	var asking sync.WaitGroup
	asking.Go(func() { list, err = r.stats.PodStats(ctx) })
	disk, whole := r.onDisk(ctx, pods)
	asking.Wait()
	if err != nil {
		klog.FromContext(ctx).V(2).
			Info("The layers of containers are not known: their pods' limits are compared with the rest", "cause",
				err.Error())
	}

	known := byUID(list)
	whole = whole && !slices.ContainsFunc(pods,
		func(v pod.View) bool { return limitsLayers(v) && known[v.Pod.UID] == nil })
	return together(pods, known, disk), whole
}

// limitsLayers reports whether a container of the pod, or the pod, has a limit of local storage, in which the layers
// of containers count.
func limitsLayers(v pod.View) bool {
	most := resources.PodLimits(v.Pod, resources.PodResourcesOptions{})
	return !most.StorageEphemeral().IsZero()
}

// byUID points into the list.
func byUID(list []statsapi.PodStats) map[types.UID]*statsapi.PodStats {
	out := map[types.UID]*statsapi.PodStats{}
	for i := range list {
		out[types.UID(list[i].PodRef.UID)] = &list[i]
	}
	return out
}

// diskUse is what a pod has on disk beside logs and layers.
type diskUse struct {
	volumes []measure.Usage
	files   measure.Usage
}

// onDisk reads the disk for some pods at a time, until ctx ends. whole is false if something was measured in part.
func (r *leftReader) onDisk(ctx context.Context, pods []pod.View) (out map[types.UID]diskUse, whole bool) {
	out, whole = map[types.UID]diskUse{}, true
	var mu sync.Mutex
	slots := make(chan struct{}, localParallel)
	var all sync.WaitGroup
	for _, v := range pods {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			use := diskUse{r.volumes.LocalUsage(ctx, v.Pod.UID), r.volumes.FileUsage(v.Pod.UID)}
			mu.Lock()
			defer mu.Unlock()
			out[v.Pod.UID] = use
			whole = whole && !slices.ContainsFunc(use.volumes, func(v measure.Usage) bool { return v.Partial })
		})
	}
	all.Wait()
	return out, whole
}

// together joins what the runtime says of pods and what they have on disk.
func together(pods []pod.View, stats map[types.UID]*statsapi.PodStats,
	disk map[types.UID]diskUse) map[types.UID]*evict.Usage {
	out := map[types.UID]*evict.Usage{}
	for _, v := range pods {
		out[v.Pod.UID] = usageOf(stats[v.Pod.UID], &v, disk[v.Pod.UID])
	}
	return out
}

// usageOf puts together what one pod uses. stats is nil if the runtime says nothing of it.
func usageOf(stats *statsapi.PodStats, v *pod.View, disk diskUse) *evict.Usage {
	u := &evict.Usage{Files: disk.files.UsedBytes, FileObjects: disk.files.UsedInodes}
	if stats == nil {
		stats = &statsapi.PodStats{}
	}
	if stats.Memory != nil {
		u.Memory = stats.Memory.WorkingSetBytes
	}
	if p := stats.ProcessStats; p != nil && p.ProcessCount != nil {
		u.Processes = *p.ProcessCount
	}

	known := map[string]*statsapi.ContainerStats{}
	names := map[string]bool{}
	for i := range stats.Containers {
		known[stats.Containers[i].Name] = &stats.Containers[i]
		names[stats.Containers[i].Name] = true
	}
	for name := range v.Containers {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		u.Containers = append(u.Containers, containerUsage(name, known[name], v.Containers[name].LogPath))
	}
	for _, vol := range disk.volumes {
		if vol.Local { // one in memory cannot exceed its limit: its file system has that size
			u.Volumes = append(u.Volumes,
				evict.VolumeUsage{Name: vol.Name, Bytes: vol.UsedBytes, Objects: vol.UsedInodes})
		}
	}
	return u
}

// containerUsage puts together what one container uses. stats is nil if the runtime says nothing of it; log is empty
// if it has none.
func containerUsage(name string, stats *statsapi.ContainerStats, log string) evict.ContainerUsage {
	one := evict.ContainerUsage{Name: name}
	if stats != nil && stats.Memory != nil {
		one.Memory = stats.Memory.WorkingSetBytes
	}
	if stats != nil && stats.Rootfs != nil {
		one.Layer = stats.Rootfs.UsedBytes
		if n := stats.Rootfs.InodesUsed; n != nil {
			one.LayerObjects = *n
		}
	}
	if log != "" {
		bytes, files := logs.Size(log)
		one.Logs, one.LogObjects = &bytes, files
	}
	return one
}
