package volume

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/env"
)

// Mounts says what to mount into a container, in the order of its volumeMounts. known gives the variables of
// subPathExpr. Prepare must have succeeded. On Linux it makes the bind mounts of sub paths; calling it again is safe. On
// Windows, where there are none, the folders of sub paths are held open so that nobody can put a link in their place:
// call release, which is never nil, once the container was started or will not be.
func (m *Manager) Mounts(pod *v1.Pod, c *v1.Container, known func(string) (string, bool)) (mounts []Mount, release func(), err error) {
	var held holds
	mounts = make([]Mount, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		vm := &c.VolumeMounts[i]
		v := findVolume(pod, vm.Name)
		if v == nil {
			err = fmt.Errorf("container %q mounts volume %q, which the pod does not have", c.Name, vm.Name)
		} else if v.Image != nil {
			continue // the runtime's
		} else {
			var one Mount
			one, err = m.mount(mountJob{pod: pod, container: c, index: i, volume: v, held: &held}, known)
			mounts = append(mounts, one)
		}
		if err != nil {
			held.release()
			return nil, func() {}, err
		}
	}
	return mounts, held.release, nil
}

// holds are handles that keep folders as they are.
type holds []io.Closer

func (h *holds) release() {
	for _, c := range *h {
		_ = c.Close()
	}
	*h = nil
}

// mountJob is one volumeMount of a container.
type mountJob struct {
	pod       *v1.Pod
	container *v1.Container
	index     int
	volume    *v1.Volume
	held      *holds
}

func (m *Manager) mount(j mountJob, known func(string) (string, bool)) (Mount, error) {
	vm := &j.container.VolumeMounts[j.index]
	host, err := m.pathOf(j.pod.UID, j.volume)
	if err != nil {
		return Mount{}, fmt.Errorf("volume %q: %w", vm.Name, err)
	}
	at, err := CleanContainerPath(vm.MountPath, m.windows)
	if err != nil {
		return Mount{}, fmt.Errorf("mounting volume %q: %w", vm.Name, err)
	}
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		if known == nil {
			known = func(string) (string, bool) { return "", false }
		}
		if sub, err = env.ExpandStrict(vm.SubPathExpr, known); err != nil {
			return Mount{}, fmt.Errorf("mounting volume %q: subPathExpr: %w", vm.Name, err)
		}
	}
	clean, err := cleanSubPath(sub, m.windows)
	if err != nil {
		return Mount{}, fmt.Errorf("mounting volume %q: %w", vm.Name, err)
	}
	if clean != "" {
		bind := filepath.Join(m.podDir(j.pod.UID), "volume-subpaths", j.volume.Name, j.container.Name, fmt.Sprint(j.index))
		if host, err = bindSubPath(host, clean, bind, j.held); err != nil {
			return Mount{}, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", vm.Name, j.container.Name, err)
		}
	}
	return Mount{
		Name: vm.Name, HostPath: host, ContainerPath: at,
		ReadOnly:          vm.ReadOnly || filledByKubelet(j.volume),
		RecursiveReadOnly: recursiveReadOnly(vm),
		Propagation:       propagation(vm),
	}, nil
}

func findVolume(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

func filledByKubelet(v *v1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

func recursiveReadOnly(vm *v1.VolumeMount) bool {
	return vm.ReadOnly && vm.RecursiveReadOnly != nil && *vm.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled
}

func propagation(vm *v1.VolumeMount) v1.MountPropagationMode {
	if vm.MountPropagation != nil {
		return *vm.MountPropagation
	}
	return v1.MountPropagationNone
}

// resolveBeneath follows the links of volume/sub and refuses a result outside the volume. What does not exist yet is
// returned as the rest that must be made, with slashes.
func resolveBeneath(volume, sub string) (root, beneath, missing string, err error) {
	if root, err = filepath.EvalSymlinks(volume); err != nil {
		return "", "", "", fmt.Errorf("resolving the volume: %w", err)
	}
	parts := strings.Split(sub, "/")
	for n := len(parts); n >= 0; n-- {
		full := filepath.Join(append([]string{root}, parts[:n]...)...)
		if _, err := os.Lstat(full); err != nil && n > 0 {
			if os.IsNotExist(err) {
				continue
			}
			return "", "", "", hide(err)
		}
		real, err := filepath.EvalSymlinks(full)
		if err != nil {
			return "", "", "", hide(err)
		}
		rel, err := filepath.Rel(root, real)
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) || filepath.IsAbs(rel) {
			return "", "", "", fmt.Errorf("subPath %q leads out of the volume", sub)
		}
		return root, rel, strings.Join(parts[n:], "/"), nil
	}
	return root, ".", sub, nil
}

// hide keeps the node's paths out of an error that the pod's owner sees.
func hide(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}
