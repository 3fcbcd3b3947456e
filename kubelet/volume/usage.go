package volume

import (
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Usage is what one volume holds, and how large its filesystem is where it has one of its own (in memory).
type Usage struct {
	Name                                              string
	UsedBytes, UsedInodes                             uint64
	CapacityBytes, AvailableBytes, Inodes, InodesFree uint64
	// Local says that it is on the node's disk and goes with the pod: an emptyDir that is not in memory.
	Local bool
}

// Usage measures the volumes of a pod that this process prepared, host paths left out. It reads whole trees: do not ask
// often.
func (m *Manager) Usage(uid types.UID) []Usage {
	m.mu.Lock()
	p := m.pods[uid]
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	pod := p.pod
	p.mu.Unlock()
	var out []Usage
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if pluginOf(v) == "" {
			continue
		}
		u, ok := filesystem(m.volumeDir(uid, v))
		if !ok {
			u = tree(m.volumeDir(uid, v))
			u.Local = v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
		}
		u.Name = v.Name
		out = append(out, u)
	}
	return out
}

// tree adds up a folder. It goes through handles, follows no link and enters no other filesystem.
func tree(dir string) Usage {
	var u Usage
	root, err := os.OpenRoot(dir)
	if err != nil {
		return u
	}
	defer root.Close()
	top, err := root.Stat(".")
	if err != nil {
		return u
	}
	seen := map[fileID]bool{} // files with several names count once
	_ = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil { // it went away meanwhile, or is somebody else's
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if d.IsDir() && !sameDevice(top, info) {
			return fs.SkipDir
		}
		if id, many := idOf(info); many {
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		u.UsedBytes += onDisk(info)
		u.UsedInodes++
		return nil
	})
	return u
}
