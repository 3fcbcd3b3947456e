package volume

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/volume/paths"
)

// HostPath returns where a volume of a pod is on the node. It knows the pods that this process prepared, and the
// folders that an earlier process left. It returns false if neither has the volume, or if the runtime mounts it.
func (m *Manager) HostPath(uid types.UID, volume string) (string, bool) {
	m.mu.Lock()
	p := m.pods[uid]
	m.mu.Unlock()
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range p.pod.Spec.Volumes {
			if v := &p.pod.Spec.Volumes[i]; v.Name == volume {
				at, err := m.job(nil, p.pod, Facts{}, v).path()
				return at, err == nil && at != ""
			}
		}
	}

	if paths.CheckID(string(uid)) != nil || paths.CheckVolumeName(volume) != nil {
		return "", false
	}
	found, _ := filepath.Glob(filepath.Join(m.opts.volumesDir(uid), "*", volume))
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}
