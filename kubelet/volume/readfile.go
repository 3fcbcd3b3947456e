package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/kubelet/volume/paths"
)

// maxEnvFile bounds a file of environment variables, in bytes: all variables of a process have about two megabytes on
// Linux.
const maxEnvFile = 1 << 20

// ReadFile reads a file of an emptyDir, from which a container takes variables. Links of the volume are followed as
// far as they stay in it. The error is fs.ErrNotExist if there is no such file, and names no path of the node. Prepare
// must have succeeded.
func (m *Manager) ReadFile(pod *v1.Pod, volume, path string) (string, error) {
	v := findVolume(pod, volume)
	if v == nil || v.EmptyDir == nil {
		return "", fmt.Errorf("the pod has no emptyDir %q", volume)
	}
	dir, err := m.job(nil, pod, Facts{}, v).path()
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", paths.Hide(err)
	}
	defer root.Close()

	// A container can make it a named pipe at any time: look at it once it is open.
	f, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|beneath.NoWait, 0)
	if err != nil {
		return "", paths.Hide(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		return "", paths.Hide(err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	if err == nil && len(data) > maxEnvFile {
		err = fmt.Errorf("it has more than %d bytes", maxEnvFile)
	}
	return string(data), paths.Hide(err)
}
