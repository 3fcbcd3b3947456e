package allot

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pin"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/userns"
)

// Manager gives pods what the node has in pieces. Make it with New. It is safe for concurrent use.
type Manager struct {
	o       Options
	devices devices
	held    deviceList
	claims  claims
	pins    pins
	placing *placing
	repin   *repin
}

// New returns a Manager of what the options name. It serves nobody until Run.
func New(o Options) *Manager {
	m := &Manager{o: o, devices: noDevices{}, held: noDevices{}, claims: noClaims{}, pins: noPins{}}
	var begin []func(*v1.Pod) allocation
	if o.Devices != nil {
		m.devices, m.held = o.Devices, o.Devices
		begin = append(begin, func(p *v1.Pod) allocation { return o.Devices.Begin(p) })
	}
	if o.Claims != nil {
		m.claims = o.Claims
	}
	if o.Pins != nil {
		m.pins = o.Pins
		countPinned(o.Meter, o.Pins)
	}
	if m.pins.Active() {
		begin = append(begin, func(p *v1.Pod) allocation { return m.pins.Begin(p) })
	}
	m.placing = newPlacing(o.Topology, m.pins, o.Meter, begin)
	m.repin = newRepin(m.pins, &m.o)
	return m
}

// Run serves device plugins, does what is due for claims, and keeps containers on their processors, until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		if err := m.devices.Run(ctx); err != nil { // a kubelet that cannot serve them goes on without
			klog.FromContext(ctx).Error(err, "Device plugins cannot register")
		}
	})
	if m.o.Claims != nil {
		all.Go(func() { m.o.Claims.Run(ctx) })
	}
	all.Go(func() { m.repin.run(ctx) })
}

// Allocate gives a pod the devices, processors and memory that it asks for, or returns why it cannot run here, in
// upstream's words. A pod that has them keeps them. With a topology policy, or where processors or memory are given,
// it waits for its turn.
func (m *Manager) Allocate(ctx context.Context, p *v1.Pod) *admit.Refusal {
	return m.placing.allocate(ctx, p)
}

// Regain gives a pod that runs the processors and the memory that it had, if what was written down about them is lost.
// A pod for which there is no room goes on without: it has its place whatever has changed.
func (m *Manager) Regain(ctx context.Context, p *v1.Pod) { m.placing.regain(ctx, p) }

// ResizeRefusal refuses to change what a container has alone, in upstream's words. had is the pod with the resources
// that it has.
func (m *Manager) ResizeRefusal(had, wants *v1.Pod) *admit.Refusal {
	return m.placing.resizeRefusal(had, wants)
}

// Amounts counts the node's devices.
func (m *Manager) Amounts() device.Amounts { return m.devices.Amounts() }

// Raised returns what a pod can have of the node, of which allocatable is what any pod can have: its own devices count,
// although some may have become unhealthy.
func (m *Manager) Raised(uid types.UID, allocatable v1.ResourceList) v1.ResourceList {
	return m.devices.Raised(uid, allocatable)
}

// Settled has running containers keep away from what an admitted pod got.
func (m *Manager) Settled() { m.repin.changed.Wake() }

// Release ends what a pod has of devices, processors and memory. Releasing twice does nothing.
func (m *Manager) Release(uid types.UID) {
	m.devices.Release(uid)
	if m.pins.Release(uid) {
		m.repin.changed.Wake()
	}
}

// Finished forgets a pod that has nothing left on the node but folders.
func (m *Manager) Finished(uid types.UID) {
	if m.o.IDs != nil {
		m.o.IDs.Release(uid)
	}
}

// UserIDs returns the ids of a pod that has a user namespace of its own.
func (m *Manager) UserIDs(uid types.UID) (*userns.Range, error) {
	if m.o.IDs == nil {
		return nil, errors.New("this kubelet was not told which user ids pods may have")
	}
	ids, err := m.o.IDs.Of(uid)
	return &ids, err
}

// Prepare makes the claims of a pod ready before its containers are made. Unprepare undoes that after the pod has
// ended; it succeeds for a pod that has none.
func (m *Manager) Prepare(ctx context.Context, p *v1.Pod) error { return m.claims.Prepare(ctx, p) }

// Unprepare undoes Prepare.
func (m *Manager) Unprepare(ctx context.Context, uid types.UID) error {
	return m.claims.Unprepare(ctx, uid)
}

// AddTo adds to a container what it gets because of the devices and the claims of its pod.
func (m *Manager) AddTo(ctx context.Context, spec *runtime.ContainerSpec) error {
	if err := m.addDevices(ctx, spec); err != nil {
		return err
	}
	return m.addClaims(spec)
}

// Place says where the container of a spec is to run, and returns the processors that it was told.
func (m *Manager) Place(spec *runtime.ContainerSpec) pin.Place {
	at := m.pins.Of(spec.Sandbox.Pod.UID, spec.Container.Name)
	spec.CPUs = at.CPUs
	spec.Mems = at.Mems
	spec.Alone = at.Alone && m.o.NoQuota
	return at
}

// Moved gives a container that has just started its processors, if others have come to be its own since it was told
// at. What fails is tried again by Run.
func (m *Manager) Moved(ctx context.Context, uid types.UID, container, id string, at pin.Place) {
	if now := m.pins.Of(uid, container).CPUs; now != at.CPUs {
		_ = m.o.Pin(ctx, id, now)
	}
}

// WithHealth adds the health of devices to the statuses of a pod's containers, whoever gave them, if the node is to
// show it.
func (m *Manager) WithHealth(p *v1.Pod, statuses []v1.ContainerStatus) []v1.ContainerStatus {
	if !m.o.Health {
		return statuses
	}
	return device.WithHealth(statuses, m.healthOf(p))
}

// countPinned shows the figures of processors and memory that belong to one container.
func countPinned(m *meter.Meter, p *pin.Manager) {
	if m == nil {
		return
	}
	m.CountPinned(func() meter.Pinned {
		c, alone, free := p.Counts()
		return meter.Pinned{CPURequests: c.CPURequests, CPUErrors: c.CPUErrors, MemoryRequests: c.MemoryRequests,
			MemoryErrors: c.MemoryErrors, Alone: alone, Free: free}
	})
}
