package serve

import (
	"context"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"porthole.dev/porthole/kubelet/logs"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// addDisk adds to the runtime's statistics what only the kubelet knows: start times, logs, volumes, ephemeral storage.
func (s *sampler) addDisk(pods []statsapi.PodStats, node statsapi.NodeStats) {
	views := map[string]pod.View{}
	for _, v := range s.opts.Pods() {
		views[string(v.Pod.UID)] = v
	}
	// What was measured for pods that are gone is forgotten.
	for uid := range s.disk {
		if _, there := views[string(uid)]; !there {
			delete(s.disk, uid)
		}
	}

	for i := range pods {
		view, known := views[pods[i].PodRef.UID]
		if known {
			s.complete(&pods[i], view, node.Fs)
		}
	}
}

// complete adds the same to one pod. node is the file system of the node, which the pod's files are on.
func (s *sampler) complete(p *statsapi.PodStats, view pod.View, node *statsapi.FsStats) {
	use := s.disk[view.Pod.UID]
	// Sizes are measured anew only if they are older than diskAge, because reading folders costs
	// the disk.
	if time.Since(use.at) > diskAge {
		use = s.measure(view)
		s.disk[view.Pod.UID] = use
	}
	if start := view.Pod.Status.StartTime; start != nil {
		p.StartTime = *start
	}

	var local size // what counts as ephemeral storage of the pod
	fsOf := func(used uint64) *statsapi.FsStats {
		return &statsapi.FsStats{Time: node.Time, UsedBytes: number(used), AvailableBytes: node.AvailableBytes,
			CapacityBytes: node.CapacityBytes,
			Inodes:        node.Inodes, InodesFree: node.InodesFree}
	}

	// A container's logs and its own file system count as ephemeral storage, and so do volumes that
	// are local.
	for i := range p.Containers {
		c := &p.Containers[i]
		if st, ok := statusOf(view.Pod, c.Name); ok && st.State.Running != nil {
			c.StartTime = st.State.Running.StartedAt
		}
		c.Logs = fsOf(use.logs[c.Name].bytes)
		c.Logs.InodesUsed = number(use.logs[c.Name].inodes)
		if c.Rootfs != nil {
			root := fsOf(0)
			root.Time = c.Rootfs.Time
			root.UsedBytes = c.Rootfs.UsedBytes
			root.InodesUsed = c.Rootfs.InodesUsed
			c.Rootfs = root
			local.add(ptr.Deref(root.UsedBytes, 0), ptr.Deref(root.InodesUsed, 0))
		}
		local.add(use.logs[c.Name].bytes, use.logs[c.Name].inodes)
	}

	for _, v := range use.volumes {
		p.VolumeStats = append(p.VolumeStats, volumeStats(&v, view.Pod.Namespace, fsOf(v.UsedBytes)))
		if v.Local {
			local.add(v.UsedBytes, v.UsedInodes)
		}
	}

	// The hosts file and termination messages are the pod's own files.
	local.add(use.files.UsedBytes, use.files.UsedInodes)
	p.EphemeralStorage = fsOf(local.bytes)
	p.EphemeralStorage.InodesUsed = number(local.inodes)
}

// volumeStats describes a volume. on is the file system of the node with what the volume uses of it; a volume with a
// capacity of its own shows that.
func volumeStats(v *measure.Usage, namespace string, on *statsapi.FsStats) statsapi.VolumeStats {
	one := statsapi.VolumeStats{Name: v.Name, FsStats: *on}
	one.InodesUsed = number(v.UsedInodes)
	if v.Claim != "" {
		one.PVCRef = &statsapi.PVCReference{Name: v.Claim, Namespace: namespace}
	}
	if v.Abnormal != nil {
		one.VolumeHealthStats = &statsapi.VolumeHealthStats{Abnormal: *v.Abnormal}
	}
	if v.CapacityBytes > 0 {
		one.CapacityBytes = number(v.CapacityBytes)
		one.AvailableBytes = number(v.AvailableBytes)
		one.Inodes = number(v.Inodes)
		one.InodesFree = number(v.InodesFree)
	}
	return one
}

// measure reads the sizes of a pod's logs, volumes and files from disk. What takes longer than diskTimeout is known in
// part.
func (s *sampler) measure(view pod.View) diskUse {
	ctx, cancel := context.WithTimeout(context.Background(), diskTimeout)
	defer cancel()
	use := diskUse{at: time.Now(), logs: map[string]size{}}
	// A log's folder has its rotated files too.
	for name, c := range view.Containers {
		if c.LogPath == "" {
			continue
		}
		if dir, err := logs.Folder(c.LogPath); err == nil {
			bytes, inodes := measure.Folder(ctx, dir)
			use.logs[name] = size{bytes, inodes}
			dir.Close()
		}
	}
	if s.opts.Volumes != nil {
		use.volumes = s.opts.Volumes.Usage(ctx, view.Pod.UID)
		use.files = s.opts.Volumes.FileUsage(view.Pod.UID)
	}
	return use
}
