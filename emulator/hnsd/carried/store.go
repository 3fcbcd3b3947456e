// Package carried owns what the data plane has been asked to carry, and which objects it has lost although they are
// listed.
package carried

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/internal/atomicfile"
)

// Store owns what is carried. It is safe for concurrent use; the order of the states that it is given is the caller's.
//
// It keeps that
//   - after a change that the data plane refused, the data plane was asked for what it was asked for before;
//   - an object that is lost stays so, over restarts too, until a change rewrites it or everything is repaired;
//   - whatever could not be carried is known to be missing (Complete), so that somebody asks again.
type Store struct {
	plane DataPlane
	file  string // keeps the lost objects; there is none without

	mu       sync.Mutex
	asked    *desired.State  // what the data plane was last asked for; nil: everything of the state
	complete bool            // it carries all of that
	lost     map[string]bool // objects by id
}

// Open reads which objects are lost.
func Open(plane DataPlane, file string) (*Store, error) {
	s := &Store{plane: plane, file: file, lost: map[string]bool{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	var ids []string
	if err == nil {
		err = json.Unmarshal(data, &ids)
	}
	if err != nil {
		return nil, fmt.Errorf("reading which HNS objects carry no packets: %w", err)
	}
	for _, id := range ids {
		s.lost[id] = true
	}
	return s, nil
}

// Complete reports whether the data plane carries all that it was asked for.
func (s *Store) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

// All gives the data plane everything of a state again, but for what is lost.
func (s *Store) All(ctx context.Context, state *hnsd.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all(ctx, state)
}

// all runs under mu.
func (s *Store) all(ctx context.Context, state *hnsd.State) error {
	s.note(state)
	errs, err := s.plane.Apply(ctx, s.before(state))
	if err == nil {
		err = joinByID(errs)
	}
	s.complete = err == nil
	return err
}

// Carry has next carried in place of old, and what diff rewrites is lost no longer. If an object that diff puts cannot
// be carried, it is an error, and nothing has changed. Failures of other objects, and of what goes away, are not: see
// Complete.
func (s *Store) Carry(ctx context.Context, old, next *hnsd.State, diff hnsd.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What is lost is written before the data plane is asked; if that refuses, it is written back.
	before, after := s.lost, maps.Clone(s.lost)
	for _, o := range diff.Put {
		delete(after, o.ID)
	}
	for _, r := range diff.Drop {
		delete(after, r.ID)
	}
	// No lost object is touched by the change: the file need not be written.
	if len(after) == len(before) {
		return s.carry(ctx, old, next, diff)
	}
	if err := s.lose(after); err != nil {
		return err
	}
	if err := s.carry(ctx, old, next, diff); err != nil {
		return errors.Join(err, s.lose(before))
	}
	return nil
}

// carry asks the data plane for a state, and for the former one again if an object of the change fails.
// carry runs under mu. Errors of objects that the change does not put only make the store
// incomplete.
func (s *Store) carry(ctx context.Context, old, next *hnsd.State, diff hnsd.Change) error {
	errs, same, err := s.ask(ctx, old, next, diff)
	if same {
		return nil
	}
	var failed error
	// An error of the whole call counts against the change only if it puts something: a deletion
	// goes on.
	if len(diff.Put) > 0 && err != nil {
		failed = err
	}
	for _, o := range diff.Put {
		if errs[o.ID] != nil {
			failed = errors.Join(failed, fmt.Errorf("%s %s: %w", o.Kind, o.ID, errs[o.ID]))
		}
	}
	if failed == nil {
		s.note(next)
		s.complete = err == nil && joinByID(errs) == nil
		return nil
	}

	// What was refused is taken back by asking for the former state; if that fails too, somebody
	// asks again.
	errs, err = s.plane.Apply(ctx, s.before(old))
	s.complete = err == nil && joinByID(errs) == nil
	return failed
}

// ask asks the data plane for a state, for the change alone if it can be. same reports that there is nothing to ask
// for.
func (s *Store) ask(ctx context.Context, old, next *hnsd.State, diff hnsd.Change) (errs map[string]error, same bool,
	err error) {
	// A small change needs a data plane that has exactly the former state: everything carried,
	// nothing lost.
	if u, can := s.plane.(updater); can && s.complete && s.asked == nil && len(s.lost) == 0 {
		if small, alone := hnsd.DesiredChange(next, diff); alone {
			if small.Empty() {
				return nil, true, nil
			}
			errs, err = u.Update(ctx, small, func() desired.State { return hnsd.Desired(next) })
			return errs, false, err
		}
	}
	want := s.desired(next)
	// The comparison spares an Apply for changes that carry no packets, such as a container that is
	// noted in a namespace.
	if s.complete && reflect.DeepEqual(want, s.before(old)) {
		return nil, true, nil
	}
	errs, err = s.plane.Apply(ctx, want)
	return errs, false, err
}

// note notes what the data plane was asked for when it was given a state.
func (s *Store) note(state *hnsd.State) {
	s.asked = nil
	if len(s.lost) > 0 {
		want := s.desired(state)
		s.asked = &want
	}
}

// before is what the data plane was last asked for, when it was given a state.
// asked is kept only while something is lost; otherwise the state itself says what was asked for.
func (s *Store) before(state *hnsd.State) desired.State {
	if s.asked != nil {
		return *s.asked
	}
	return hnsd.Desired(state)
}

// desired is what the data plane shall carry: the state without what is lost.
func (s *Store) desired(state *hnsd.State) desired.State {
	d := hnsd.Desired(state)
	if len(s.lost) == 0 {
		return d
	}
	lost := func(id string) bool { return s.lost[id] }
	d.LoadBalancers = slices.DeleteFunc(d.LoadBalancers, func(lb desired.LoadBalancer) bool { return lost(lb.ID) })
	for i := range d.LoadBalancers {
		// Backends are cloned, because the document of the object shares the list.
		d.LoadBalancers[i].Backends = slices.DeleteFunc(slices.Clone(d.LoadBalancers[i].Backends), lost)
	}
	d.Endpoints = slices.DeleteFunc(d.Endpoints, func(e desired.Endpoint) bool { return lost(e.ID) })
	d.Networks = slices.DeleteFunc(d.Networks, func(n desired.Network) bool { return lost(n.ID) })
	return d
}

// Lose has the data plane carry some objects of a state no longer.
func (s *Store) Lose(ctx context.Context, state *hnsd.State, ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := maps.Clone(s.lost)
	for _, id := range ids {
		lost[id] = true
	}
	if err := s.lose(lost); err != nil {
		return err
	}
	return s.all(ctx, state)
}

// Repair has the data plane carry again what it has lost.
func (s *Store) Repair(ctx context.Context, state *hnsd.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lose(map[string]bool{}); err != nil {
		return err
	}
	return s.all(ctx, state)
}

// Verify compares the data plane with a state; each line is one difference. It has none if it cannot be compared.
func (s *Store) Verify(ctx context.Context, state *hnsd.State) ([]kernel.Drift, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.plane.(verifier)
	if !ok {
		return nil, nil
	}
	return v.Verify(ctx, hnsd.Desired(state))
}

// lose replaces what is lost, also in the file, so that it stays lost when the daemon starts again. If it cannot be
// written nothing has changed.
func (s *Store) lose(ids map[string]bool) error {
	if len(ids) == 0 {
		if err := os.Remove(s.file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.lost = ids
		return nil
	}
	data, err := json.Marshal(slices.Sorted(maps.Keys(ids)))
	if err == nil {
		err = atomicfile.Write(s.file, data, 0o600)
	}
	if err == nil {
		s.lost = ids
	}
	return err
}

// joinByID names each object in its error; nil if none failed.
func joinByID(errs map[string]error) error {
	var list []error
	for id, err := range errs {
		if err != nil {
			list = append(list, fmt.Errorf("%s: %w", id, err))
		}
	}
	return errors.Join(list...)
}
