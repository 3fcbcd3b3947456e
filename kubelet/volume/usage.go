package volume

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// Names below the folder of a pod, upstream's: its hosts file, and the folder of the files of termination messages.
const (
	hostsName    = "etc-hosts"
	messagesName = "containers"
)

// Measure measures what pods have on disk.
type Measure struct{ Of *Manager }

// Usage measures the volumes of a pod that this process prepared, until ctx ends. Host paths and images are left out.
// It reads whole trees: do not call it often.
func (m Measure) Usage(ctx context.Context, uid types.UID) []measure.Usage {
	return measureVolumes(ctx, m.Of, uid, func(*v1.Volume) bool { return true })
}

// LocalUsage is Usage of the volumes that are on the node's disk and are removed with the pod. It asks no driver.
func (m Measure) LocalUsage(ctx context.Context, uid types.UID) []measure.Usage {
	return measureVolumes(ctx, m.Of, uid,
		func(v *v1.Volume) bool { return v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault })
}

// measureVolumes measures the wanted volumes of a pod; none if the pod is not known.
func measureVolumes(ctx context.Context, m *Manager, uid types.UID,
	wanted func(*v1.Volume) bool) (out []measure.Usage) {
	m.mu.Lock()
	p := m.pods[uid]
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	pod := p.pod
	p.mu.Unlock()

	for i := range pod.Spec.Volumes {
		j := m.job(nil, pod, Facts{}, &pod.Spec.Volumes[i])
		k := kindOf(j.volume)
		if k == nil || !wanted(j.volume) {
			continue
		}
		if u, ok := k.usage(ctx, j); ok {
			u.Name = j.volume.Name
			out = append(out, u)
		}
	}
	return out
}

// FileUsage returns what the files take that the kubelet made for a pod and that its containers can write: the hosts
// file and those of termination messages. They are on the node's disk (CVE-2020-8557).
func (m Measure) FileUsage(uid types.UID) (u measure.Usage) {
	dir, err := beneath.Folder(m.Of.opts.RootDir, "pods", string(uid))
	if err != nil {
		return u
	}
	defer dir.Close()

	names := []string{hostsName}
	for _, container := range namesIn(dir, messagesName) {
		for _, file := range namesIn(dir, path.Join(messagesName, container)) {
			names = append(names, filepath.Join(messagesName, container, file))
		}
	}
	for _, name := range names {
		if info, err := dir.Lstat(name); err == nil && info.Mode().IsRegular() {
			u.UsedBytes += measure.OnDisk(info)
			u.UsedInodes++
		}
	}
	return u
}

// namesIn lists a folder below an open one; nothing if it cannot be read.
func namesIn(root *os.Root, folder string) (names []string) {
	entries, _ := fs.ReadDir(root.FS(), folder)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
