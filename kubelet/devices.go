package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/pin"
	"porthole.dev/porthole/kubelet/runtime"
)

// newDevices makes what serves device plugins in a folder; "" is for a node that takes none.
func newDevices(o device.Options) (devices, deviceList) {
	if o.Dir == "" {
		return noDevices{}, noDevices{}
	}
	m, err := device.New(o)
	if err != nil { // as upstream's kubelet: pods that run have what they need, others get devices anew
		klog.Background().Error(err, "What an earlier kubelet wrote down about devices cannot be read")
	}
	return m, m
}

// deviceOptions are those of a node's devices. A pod keeps its devices as long as it is known, or not all pods are.
func deviceOptions(k *Kubelet) device.Options {
	o := device.Options{Dir: k.o.DeviceDir, Alive: podAlive(k),
		Changed: func(pods []types.UID) { devicesChanged(k, pods) }, Meter: k.o.Meter}
	if m := k.o.Placing.Topology.Machine; m != nil {
		o.Nodes = m.NodeIDs()
	}
	return o
}

// devicesChanged reports the node, and lets pods look at the health of their devices.
func devicesChanged(k *Kubelet, pods []types.UID) {
	k.node.ReportSoon()
	wakePods(k, pods)
}

// serveDevices serves device plugins until ctx ends. A kubelet that cannot goes on without.
func serveDevices(ctx context.Context, d devices) {
	if err := d.Run(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Device plugins cannot register")
	}
}

// PodResources tells what the pods of a kubelet have of the node.
type PodResources struct{ k *Kubelet }

// NewPodResources tells what the pods of k have.
func NewPodResources(k *Kubelet) PodResources { return PodResources{k} }

// ActivePods are the pods that have not ended.
func (r PodResources) ActivePods() []*v1.Pod {
	var out []*v1.Pod
	for _, v := range r.k.View() {
		if p := v.Pod; p != nil && p.Status.Phase != v1.PodFailed && p.Status.Phase != v1.PodSucceeded {
			out = append(out, p)
		}
	}
	return out
}

// PodDevices are the devices of a pod, by container.
func (r PodResources) PodDevices(uid types.UID) map[string][]device.Held { return r.k.held.Held(uid) }

// HealthyDevices are those that the node has for pods.
func (r PodResources) HealthyDevices() []device.Held { return r.k.held.Healthy() }

// Claims are the claims of a container, with their devices.
func (r PodResources) Claims(p *v1.Pod, c *v1.Container) []dra.Held { return r.k.claims.Held(p, c) }

// Alone are the processors and the memory that a container has alone.
func (r PodResources) Alone(uid types.UID, container string) (cpus []int, memory []pin.Block) {
	if p := r.k.o.Placing.Pins; p != nil {
		return p.Exclusive(uid, container).List(), p.Memory(uid, container)
	}
	return nil, nil
}

// ForPods are the processors and the memory that containers can get alone.
func (r PodResources) ForPods() (cpus []int, memory []pin.Block) {
	if p := r.k.o.Placing.Pins; p != nil {
		set, blocks := p.ForPods()
		return set.List(), blocks
	}
	return nil, nil
}

// Asked counts a question.
func (r PodResources) Asked(call string, failed bool) { r.k.o.Meter.PodResources(call, failed) }

// addDevices adds what the container gets because of its devices. What its spec says of a variable goes before what a
// plugin says.
func addDevices(ctx context.Context, from devices, spec *runtime.ContainerSpec) error {
	got, err := from.Prepare(ctx, spec.Sandbox.Pod, spec.Container)
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
	spec.CDI, spec.Annotations = append(spec.CDI, got.CDI...), got.Annotations
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
