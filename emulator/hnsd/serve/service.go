package serve

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/dataplane"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/fault"
)

// DataPlane carries packets for a state; emulator/dataplane does it. Apply makes the kernel as desired and gives the
// error of each object, by id, that could not be carried.
type DataPlane interface {
	Apply(ctx context.Context, d desired.State) (map[string]error, error)
}

// verifier is what a DataPlane has if it can compare the kernel with the state.
type verifier interface {
	Verify(ctx context.Context, d desired.State) ([]dataplane.Drift, error)
}

// updater is what a DataPlane has if it can carry a small change alone.
type updater interface {
	Update(ctx context.Context, c desired.Change, all func() desired.State) (map[string]error, error)
}

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

// NoDataPlane keeps state only.
type NoDataPlane struct{}

func (NoDataPlane) Apply(context.Context, desired.State) (map[string]error, error) {
	return nil, nil
}

// Update keeps nothing either.
func (NoDataPlane) Update(context.Context, desired.Change, func() desired.State) (map[string]error, error) {
	return nil, nil
}

// Service is one running HNS. Reads use the current state without a lock; writes come one at a time.
type Service struct {
	host  *hnsd.Host
	plane DataPlane

	state    atomic.Pointer[hnsd.State]
	writing  sync.Mutex
	desired  *desired.State // what the data plane was last asked for; nil: Desired of the state; under writing
	complete bool           // whether it carries all of that; under writing
	journal  *journal

	planeLost map[string]bool // objects by id that the data plane lost; under writing

	calls   daemon.Counter
	faults  fault.Rules
	latency latency
	life    lifecycle
	pool    pool

	uplink string // Linux' name of the first network card; "": none is known
	seen   seenLinks
	shown  shown
	dns    dns

	takeover *takeover // nil: network cards are taken over without a trace

	guests      guests
	walls       walls
	subscribers subscribers
	handles     handles
}

// newService opens the state in journalPath. The data plane is not touched yet.
func newService(host *hnsd.Host, plane DataPlane, journalPath string) (*Service, error) {
	j, state, err := openJournal(journalPath)
	if err != nil {
		return nil, err
	}
	if state == nil {
		state = hnsd.NewState("")
		if !host.Profile.NoHostNamespace {
			state = hnsd.NewState(host.NewID())
		}
		if err := j.append(state.Diff(nil), state); err != nil {
			return nil, err
		}
	}
	lost, err := readLoss(journalPath)
	if err != nil {
		return nil, err
	}
	s := &Service{host: host, plane: plane, journal: j, planeLost: lost}
	s.pool.size.Store(endlessPool)
	host.Traffic = trafficOf(plane)
	host.PortBlocks = func() int { return int(s.pool.size.Load()) }
	s.state.Store(state.Settled())
	return s, nil
}

// restore makes the data plane carry the state that was found on disk, or what an earlier apply left undone.
func (s *Service) restore(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.complete {
		return nil
	}
	return s.reapply(ctx)
}

func joinByID(errs map[string]error) error {
	var list []error
	for id, err := range errs {
		if err != nil {
			list = append(list, fmt.Errorf("%s: %w", id, err))
		}
	}
	return errors.Join(list...)
}

// write runs one change and notifies the subscribers.
func (s *Service) write(ctx context.Context, change func(*hnsd.State) (*hnsd.State, error)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	old := s.state.Load()
	diff, err := s.commit(ctx, change)
	if err == nil {
		s.subscribers.notify(notifications(old, diff))
	}
	return err
}

// writeWithoutNotifying is write for changes that HNS itself would not report, such as losses.
func (s *Service) writeWithoutNotifying(ctx context.Context, change func(*hnsd.State) (*hnsd.State, error)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.commit(ctx, change)
	return err
}

// commit runs one change under writing: rules, then data plane, then journal. If the data plane cannot carry an object
// that the change makes or alters, nothing has happened.
func (s *Service) commit(ctx context.Context, change func(*hnsd.State) (*hnsd.State, error)) (diff hnsd.Change,
	err error) {
	old := s.state.Load()
	next, err := change(old)
	if err != nil || next == old {
		return diff, err
	}
	diff = next.Diff(old)
	if err := s.endLoss(diff); err != nil {
		return diff, hnsd.ErrFailed.WithText("%v", err)
	}
	if err := s.carry(ctx, next, diff); err != nil {
		klog.FromContext(ctx).Error(err, "the data plane refused a change", "change", diff)
		return diff, hnsd.ErrFailed.WithText("%v", err)
	}
	if err := s.journal.append(diff, next); err != nil {
		return diff, hnsd.ErrFailed.WithText("%v", err)
	}
	s.state.Store(next.Settled())
	s.adaptersChanged(ctx, old, next)
	return diff, nil
}

// carry applies a state, and the former one again if an object of the change fails. Failures of other objects, and of
// what goes away, are retried later.
func (s *Service) carry(ctx context.Context, next *hnsd.State, diff hnsd.Change) error {
	var errs map[string]error
	var err error
	small, alone := desired.Change{}, false
	u, can := s.plane.(updater)
	if can && s.complete && s.desired == nil {
		small, alone = hnsd.DesiredChange(next, diff)
	}
	switch {
	case alone && small.Empty():
		return nil
	case alone:
		errs, err = u.Update(ctx, small, func() desired.State { return hnsd.Desired(next) })
	default:
		want := s.desiredOf(next)
		if s.complete && reflect.DeepEqual(want, s.lastDesired()) {
			return nil
		}
		errs, err = s.plane.Apply(ctx, want)
	}

	var failed error
	if len(diff.Put) > 0 && err != nil {
		failed = err
	}
	for _, o := range diff.Put {
		if errs[o.ID] != nil {
			failed = errors.Join(failed, fmt.Errorf("%s %s: %w", o.Kind, o.ID, errs[o.ID]))
		}
	}
	if failed == nil {
		s.noteApplied(next)
		s.complete = err == nil && joinByID(errs) == nil
		return nil
	}

	errs, err = s.plane.Apply(ctx, s.lastDesired())
	s.complete = err == nil && joinByID(errs) == nil
	return failed
}

// noteApplied notes what the data plane was asked for when it was given a state.
func (s *Service) noteApplied(state *hnsd.State) {
	s.desired = nil
	if len(s.planeLost) > 0 {
		want := s.desiredOf(state)
		s.desired = &want
	}
}

// lastDesired is what the data plane was last asked for.
func (s *Service) lastDesired() desired.State {
	if s.desired != nil {
		return *s.desired
	}
	return hnsd.Desired(s.state.Load())
}

// Verify compares the data plane with the state; each line is one difference.
func (s *Service) Verify(ctx context.Context) ([]dataplane.Drift, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	v, ok := s.plane.(verifier)
	if !ok {
		return nil, nil
	}
	return v.Verify(ctx, hnsd.Desired(s.state.Load()))
}

// endLoss lets the data plane carry the objects again that a change rewrites; under writing.
func (s *Service) endLoss(c hnsd.Change) error {
	before := len(s.planeLost)
	if before == 0 {
		return nil
	}
	for _, o := range c.Put {
		delete(s.planeLost, o.ID)
	}
	for _, r := range c.Drop {
		delete(s.planeLost, r.ID)
	}
	if len(s.planeLost) == before {
		return nil
	}
	return s.saveLoss()
}
