package volume

import (
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"
)

// Usage is what one volume holds. The fields about capacity are zero unless the volume has a file system of its own, in
// memory.
type Usage struct {
	Name                                              string
	UsedBytes, UsedInodes                             uint64
	CapacityBytes, AvailableBytes, Inodes, InodesFree uint64
	// Local marks a volume that is on the node's disk and is removed with the pod: an emptyDir that is not in memory.
	Local bool
	// Claim is the name of the claim that the volume comes from; empty if it has none.
	Claim string
	// Abnormal says whether the volume's driver finds it in a bad state; nil if it says nothing of that.
	Abnormal *bool
}

// Usage measures the volumes of a pod that this process prepared. Host paths and images are left out. It reads whole
// trees: do not call it often.
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
		j := m.job(nil, pod, Facts{}, &pod.Spec.Volumes[i])
		k := kindOf(j.volume)
		if k == nil {
			continue
		}
		if u, ok := k.usage(j); ok {
			u.Name = j.volume.Name
			out = append(out, u)
		}
	}
	return out
}

// Folder returns what the files of a folder take of the disk, and how many files and folders there are.
func Folder(dir string) (bytes, inodes uint64) {
	u := tree(dir)
	return u.UsedBytes, u.UsedInodes
}

// tree adds up the files of a folder. It uses handles, follows no links and enters no other file systems, because
// containers can change the folder meanwhile. What cannot be read counts as nothing.
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
