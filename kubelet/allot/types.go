package allot

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/numa"
	"porthole.dev/porthole/kubelet/pin"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/userns"
)

// Topology says how the resources of a pod have to lie to each other in the machine.
type Topology struct {
	numa.Policy
	// WholePod asks this of the resources of all containers together; else of each container alone.
	WholePod bool
}

// Options of a Manager. The zero value gives nothing.
type Options struct {
	// Topology says how the resources of a pod have to lie to each other; the zero value asks nothing.
	Topology Topology
	// Devices are those of device plugins; nil for a node that has none.
	Devices *device.Manager
	// Pins is who has which processors and memory alone; nil if nobody can. Period is how often it is checked that
	// containers run where they should, and Pin tells one so; both are required with Pins.
	Pins   *pin.Manager
	Period time.Duration
	Pin    func(ctx context.Context, container, cpus string) error
	// NoQuota leaves out the CPU quota of containers that have processors alone.
	NoQuota bool
	// IDs are the user ids of pods that have a user namespace of their own; nil if no pod can.
	IDs *userns.Manager
	// Claims are the ResourceClaims of pods; nil for a node without an API server.
	Claims *dra.Manager
	// Health shows the health of devices in the status of pods.
	Health bool
	// Pods returns the pods of the node as they are now. Required with Pins, and for Resources.
	Pods func() []pod.View
	// Meter counts; nil counts nothing.
	Meter *meter.Meter
}

// devices are the devices of device plugins; kubelet/device implements it.
type devices interface {
	// Run serves plugins until ctx ends.
	Run(ctx context.Context) error
	Release(uid types.UID)
	// Raised returns what a pod that has devices can have of the node, of which allocatable is what any pod can have.
	Raised(uid types.UID, allocatable v1.ResourceList) v1.ResourceList
	// Prepare returns what a container that is about to start gets because of its devices.
	Prepare(ctx context.Context, p *v1.Pod, c *v1.Container) (device.Container, error)
	Amounts() device.Amounts
	// Health returns the devices of each container of a pod with their health.
	Health(uid types.UID) map[string][]v1.ResourceStatus
}

// deviceList tells who has which device; kubelet/device implements it.
type deviceList interface {
	Held(uid types.UID) map[string][]device.Held
	Healthy() []device.Held
}

// pins is who has which processors and memory alone; kubelet/pin implements it.
type pins interface {
	// Active reports whether somebody can get anything alone, CPUs and MemoryNodes whether that is processors, or
	// memory.
	Active() bool
	CPUs() bool
	MemoryNodes() bool
	Begin(p *v1.Pod) *pin.Round
	// Release ends what a pod has, and reports whether it had anything.
	Release(uid types.UID) bool
	// Of returns where a container is to run now.
	Of(uid types.UID, container string) pin.Place
}

// claims are the ResourceClaims of pods; kubelet/dra implements it.
type claims interface {
	// Prepare makes the claims of a pod ready before its containers are made. Unprepare undoes that after the pod has
	// ended; it succeeds for a pod that has none.
	Prepare(ctx context.Context, p *v1.Pod) error
	Unprepare(ctx context.Context, uid types.UID) error
	// CDI returns the names of the devices that a container has because of claims.
	CDI(p *v1.Pod, c *v1.Container) ([]string, error)
	// Health returns the devices of each container of a pod with their health.
	Health(p *v1.Pod) map[string][]v1.ResourceStatus
	// Held returns the claims of a container with their devices.
	Held(p *v1.Pod, c *v1.Container) []dra.Held
}

// sharer limits what all pods together may have, and gives their classes their shares; kubelet/cgroup implements it.
type sharer interface {
	// Share is told the pods that have not ended; nil pods are not known yet.
	Share(pods []*v1.Pod) error
}
