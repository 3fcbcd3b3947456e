package allot

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/runtime"
)

// addDevices adds what the container gets because of its devices. What its spec says of a variable goes before what a
// plugin says.
func (m *Manager) addDevices(ctx context.Context, spec *runtime.ContainerSpec) error {
	got, err := m.devices.Prepare(ctx, spec.Sandbox.Pod, spec.Container)
	if err != nil {
		return err
	}
	var vars []runtime.KeyValue
	for _, v := range got.Env {
		vars = append(vars, runtime.KeyValue{Name: v.Name, Value: v.Value})
	}
	spec.Env = append(vars, spec.Env...)
	for _, m := range got.Mounts {
		spec.Mounts = append(spec.Mounts,
			runtime.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: m.ReadOnly})
	}
	for _, d := range got.Nodes {
		spec.Devices = append(spec.Devices,
			runtime.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
	}
	spec.CDI = append(spec.CDI, got.CDI...)
	spec.Annotations = got.Annotations
	return nil
}

// noDevices are the devices of a node without device plugins.
type noDevices struct{}

func (noDevices) Run(context.Context) error                             { return nil }
func (noDevices) Release(types.UID)                                     {}
func (noDevices) Raised(_ types.UID, l v1.ResourceList) v1.ResourceList { return l }
func (noDevices) Amounts() device.Amounts                               { return device.Amounts{} }
func (noDevices) Held(types.UID) map[string][]device.Held               { return nil }
func (noDevices) Healthy() []device.Held                                { return nil }
func (noDevices) Health(types.UID) map[string][]v1.ResourceStatus       { return nil }
func (noDevices) Prepare(context.Context, *v1.Pod, *v1.Container) (device.Container, error) {
	return device.Container{}, nil
}
