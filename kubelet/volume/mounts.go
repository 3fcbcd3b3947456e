package volume

import (
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/env"
	"porthole.dev/porthole/kubelet/volume/paths"
	"porthole.dev/porthole/kubelet/volume/subpath"
)

// Mounts returns what to mount into a container, in the order of its volumeMounts; volumes that the runtime mounts
// itself are left out. known looks up the variables of subPathExpr. Prepare must have succeeded.
//
// On Linux Mounts makes the bind mounts of sub paths; calling it again is safe. On Windows, where there are none, it
// holds the folders of sub paths open so that nobody can put a link in their place: call release, which is never nil,
// once the container was started or will not be. Its error says that a link is there nevertheless: the container may
// have been given what the link leads to, and must not go on.
func (m *Manager) Mounts(pod *v1.Pod, c *v1.Container, known func(string) (string, bool)) (mounts []Mount,
	release func() error, err error) {
	var held subpath.Holds
	mounts = make([]Mount, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		one, ok, err := m.mount(mountJob{pod: pod, container: c, index: i, held: &held}, known)
		if err != nil {
			return nil, func() error { return nil }, errors.Join(err, held.Release())
		}
		if ok {
			mounts = append(mounts, one)
		}
	}
	return mounts, held.Release, nil
}

// Devices returns the raw devices of a container, in the order of its volumeDevices. Prepare must have succeeded.
func (m *Manager) Devices(pod *v1.Pod, c *v1.Container) (devices []Device, err error) {
	for _, d := range c.VolumeDevices {
		v := findVolume(pod, d.Name)
		if v == nil {
			return nil, fmt.Errorf("container %q uses volume %q, which the pod does not have", c.Name, d.Name)
		}
		host, err := m.job(nil, pod, Facts{}, v).path()
		if err != nil {
			return nil, fmt.Errorf("volume %q: %w", d.Name, err)
		}
		devices = append(devices, Device{HostPath: host, ContainerPath: d.DevicePath,
			ReadOnly: m.storage.IsReadOnly(pod.UID, d.Name)})
	}
	return devices, nil
}

// mountJob is one volumeMount of a container.
type mountJob struct {
	pod       *v1.Pod
	container *v1.Container
	index     int // in the container's list
	held      *subpath.Holds
}

// mount returns one mount. ok is false if the runtime mounts the volume itself.
func (m *Manager) mount(j mountJob, known func(string) (string, bool)) (one Mount, ok bool, err error) {
	vm := &j.container.VolumeMounts[j.index]
	v := findVolume(j.pod, vm.Name)
	if v == nil {
		return Mount{}, false, fmt.Errorf("container %q mounts volume %q, which the pod does not have",
			j.container.Name, vm.Name)
	}
	source := m.job(nil, j.pod, Facts{}, v)
	host, err := source.path()
	if err != nil {
		return Mount{}, false, fmt.Errorf("volume %q: %w", vm.Name, err)
	}
	if host == "" {
		return Mount{}, false, nil
	}
	// What must be right when a container starts may have changed since the volume was prepared.
	if k, ok := kindOf(v).(checked); ok {
		if err := k.beforeStart(source); err != nil {
			return Mount{}, false, fmt.Errorf("volume %q: %w", vm.Name, err)
		}
	}

	at, err := paths.CleanContainerPath(vm.MountPath, m.windows)
	if err != nil {
		return Mount{}, false, fmt.Errorf("mounting volume %q: %w", vm.Name, err)
	}
	sub, err := m.subPath(vm, known)
	if err != nil {
		return Mount{}, false, fmt.Errorf("mounting volume %q: %w", vm.Name, err)
	}
	// A part of a volume is bound to a path of its own, which containers cannot change any more.
	if sub != "" {
		bind := filepath.Join(m.opts.podDir(j.pod.UID), "volume-subpaths", vm.Name, j.container.Name,
			fmt.Sprint(j.index))
		if host, err = subpath.Bind(host, sub, bind, j.held); err != nil {
			return Mount{}, false, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w",
				vm.Name, j.container.Name, err)
		}
	}

	// Volumes that the kubelet writes are read-only for containers.
	_, filled := kindOf(v).(written)
	return Mount{
		Name: vm.Name, HostPath: host, ContainerPath: at,
		ReadOnly:            vm.ReadOnly || filled || m.storage.IsReadOnly(j.pod.UID, vm.Name),
		RecursiveReadOnly:   recursive(vm, v1.RecursiveReadOnlyEnabled),
		RecursiveIfPossible: recursive(vm, v1.RecursiveReadOnlyIfPossible),
		Propagation:         propagation(vm),
	}, true, nil
}

// subPath returns the sub path that is mounted in place of the whole volume, with slashes; "" means the whole volume.
func (m *Manager) subPath(vm *v1.VolumeMount, known func(string) (string, bool)) (string, error) {
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		if known == nil {
			known = func(string) (string, bool) { return "", false }
		}
		var err error
		if sub, err = env.ExpandStrict(vm.SubPathExpr, known); err != nil {
			return "", fmt.Errorf("subPathExpr: %w", err)
		}
	}
	return paths.CleanSubPath(sub, m.windows)
}

// findVolume returns nil if the pod has no volume of that name.
func findVolume(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

// recursive reports whether a read-only mount asks for that mode of the mounts below it.
func recursive(vm *v1.VolumeMount, mode v1.RecursiveReadOnlyMode) bool {
	return vm.ReadOnly && vm.RecursiveReadOnly != nil && *vm.RecursiveReadOnly == mode
}

func propagation(vm *v1.VolumeMount) v1.MountPropagationMode {
	if vm.MountPropagation != nil {
		return *vm.MountPropagation
	}
	return v1.MountPropagationNone
}
