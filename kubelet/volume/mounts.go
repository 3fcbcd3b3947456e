package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Mounts says what to mount into a container, in the order of its volumeMounts. expand replaces $(NAME) of
// subPathExpr. Prepare must have succeeded. On Linux it makes the bind mounts of sub paths; calling it again is safe.
func (m *Manager) Mounts(pod *v1.Pod, c *v1.Container, expand func(string) string) ([]Mount, error) {
	mounts := make([]Mount, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		vm := &c.VolumeMounts[i]
		v := findVolume(pod, vm.Name)
		if v == nil {
			return nil, fmt.Errorf("container %q mounts volume %q, which the pod does not have", c.Name, vm.Name)
		}
		if v.Image != nil {
			continue // the runtime's
		}
		one, err := m.mount(pod, c, i, v, expand)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, one)
	}
	return mounts, nil
}

func (m *Manager) mount(pod *v1.Pod, c *v1.Container, index int, v *v1.Volume, expand func(string) string) (Mount, error) {
	vm := &c.VolumeMounts[index]
	host, err := m.pathOf(pod.UID, v)
	if err != nil {
		return Mount{}, fmt.Errorf("volume %q: %w", vm.Name, err)
	}
	at, err := CleanContainerPath(vm.MountPath, m.windows)
	if err != nil {
		return Mount{}, fmt.Errorf("mounting volume %q: %w", vm.Name, err)
	}
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		sub = vm.SubPathExpr
		if expand != nil {
			sub = expand(sub)
		}
		if strings.Contains(sub, "$(") {
			return Mount{}, fmt.Errorf("mounting volume %q: subPathExpr %q names a variable that is not set", vm.Name, vm.SubPathExpr)
		}
	}
	clean, err := cleanSubPath(sub, m.windows)
	if err != nil {
		return Mount{}, fmt.Errorf("mounting volume %q: %w", vm.Name, err)
	}
	if clean != "" {
		bind := filepath.Join(m.podDir(pod.UID), "volume-subpaths", v.Name, c.Name, fmt.Sprint(index))
		if host, err = bindSubPath(host, clean, bind); err != nil {
			return Mount{}, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", vm.Name, c.Name, err)
		}
	}
	return Mount{
		Name: vm.Name, HostPath: host, ContainerPath: at,
		ReadOnly:          vm.ReadOnly || filledByKubelet(v),
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
