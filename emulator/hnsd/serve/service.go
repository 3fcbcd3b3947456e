package serve

import (
	"context"

	"k8s.io/apimachinery/pkg/util/uuid"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/carried"
	"porthole.dev/porthole/emulator/hnsd/fault"
	"porthole.dev/porthole/emulator/hnsd/handles"
	"porthole.dev/porthole/emulator/hnsd/ipstack"
	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/hnsd/objects"
	"porthole.dev/porthole/emulator/hnsd/ports"
)

// DataPlane carries packets for a state; emulator/dataplane does it.
type DataPlane = carried.DataPlane

// NoDataPlane keeps state only.
type NoDataPlane = carried.None

// counter is what a DataPlane has if it counts the traffic of endpoints.
type counter interface {
	Traffic(endpoint string) desired.Traffic
}

// trafficOf is what counts the traffic of endpoints; nil: nothing does.
func trafficOf(plane DataPlane) func(endpoint string) desired.Traffic {
	if c, ok := plane.(counter); ok {
		return c.Traffic
	}
	return nil
}

// Service is one running HNS. It reads calls, applies the rules of package hnsd to what its stores have, and answers.
// Each store has its state under a lock of its own; in which order they are held is in the package's comment.
type Service struct {
	host  *hnsd.Host
	plane DataPlane

	objects *objects.Store
	carried *carried.Store
	handles handles.Store
	ports   *ports.Store
	losses  losses
	stack   *ipstack.Stack
	latency latency.Injector

	calls       daemon.Counter
	faults      fault.Rules
	life        lifecycle
	guests      guests
	walls       walls
	subscribers subscribers
}

// options of a Service.
type options struct {
	host     *hnsd.Host // required
	plane    DataPlane  // required
	journal  string     // file; required
	lost     string     // file of what carries no packets; required
	uplink   string     // Linux' name of the first network card; "": none is known
	takeover *ipstack.Takeover
}

// newService opens the objects in the journal. The data plane is not touched yet.
func newService(o options) (*Service, error) {
	s := &Service{host: o.host, plane: o.plane, ports: ports.New()}
	o.host.Traffic = trafficOf(o.plane)
	o.host.PortBlocks = s.ports.Blocks

	// The stack asks for the state when it needs it; the store of objects is made after it, because
	// it tells the stack of changes.
	s.stack = ipstack.New(ipstack.Options{Plane: o.plane, Uplink: o.uplink, Takeover: o.takeover,
		State: func() *hnsd.State { return s.objects.State() }})
	var err error
	if s.carried, err = carried.Open(o.plane, o.lost); err != nil {
		return nil, err
	}
	s.objects, err = objects.Open(objects.Options{Journal: o.journal, Carrier: s.carried, Changed: s.stack.Changed,
		// A profile may have no namespace of the host until a program makes one.
		New: func() *hnsd.State {
			if o.host.Profile.NoHostNamespace {
				return hnsd.NewState("")
			}
			return hnsd.NewState(o.host.NewID())
		},
		Told: func(old *hnsd.State, diff hnsd.Change) { s.subscribers.notify(notifications(old, diff)) }})
	if err != nil {
		return nil, err
	}

	s.losses = losses{o.host, s.objects, s.carried}
	s.life.lose = s.losses.forget
	s.life.endHandles = s.handles.Forget
	s.life.endCallbacks = s.subscribers.endAll
	return s, nil
}

// restore makes the data plane carry the state that was found on disk, or what an earlier change left undone.
func (s *Service) restore(ctx context.Context) error {
	return s.objects.Alone(func(objects.Writer) error {
		if s.carried.Complete() {
			return nil
		}
		return s.carried.All(ctx, s.objects.State())
	})
}

// Verify compares the data plane with the state; each line is one difference.
func (s *Service) Verify(ctx context.Context) (list []kernel.Drift, err error) {
	err = s.objects.Alone(func(objects.Writer) error {
		list, err = s.carried.Verify(ctx, s.objects.State())
		return err
	})
	return list, err
}

// setPorts sets how many blocks of ports the host has. No load balancer comes between.
func (s *Service) setPorts(q ports.Request) error {
	return s.objects.Alone(func(objects.Writer) error { return s.ports.Set(q, s.objects.State().PortBlocks()) })
}

// newID returns a random GUID.
func newID() string { return string(uuid.NewUUID()) }
