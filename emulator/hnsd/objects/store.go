// Package objects owns the objects of one HNS: the state that the rules of package hnsd make, and its journal.
//
//	Change ─▶ rule: a new State ─▶ carrier: the data plane ─▶ journal ─▶ current
//	             refused ─┴──────────── refused ─┴──── not written ─┴──▶ nothing has happened
package objects

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hnsd"
)

// Store owns the objects. It is safe for concurrent use: reads use the current state without a lock, changes come one
// at a time.
//
// It keeps that a change which is refused, by the rules, by the data plane or by the disk, changes nothing; that the
// journal has every change before its caller is answered; and that those who are told of changes are told in their
// order.
//
// While it holds the lock of changes it calls the carrier and the two functions of Options, which must not change
// objects themselves.
type Store struct {
	o       Options
	journal *journal

	changing sync.Mutex
	current  atomic.Pointer[hnsd.State] // stored under changing
}

// Options of a Store.
type Options struct {
	Journal string // file; required
	// New is the state of a host that has no journal; required.
	New     func() *hnsd.State
	Carrier carrier // required
	// Changed is called after each change; nil: nobody is.
	Changed func(ctx context.Context, old, next *hnsd.State)
	// Told is called after each change that HNS reports to programs; nil: nobody is.
	Told func(old *hnsd.State, diff hnsd.Change)
}

// carrier has the data plane carry a state. *carried.Store is one.
type carrier interface {
	// Carry has next carried in place of old. If what is put in diff cannot be, it is an error, and old is carried.
	Carry(ctx context.Context, old, next *hnsd.State, diff hnsd.Change) error
	// All has a whole state carried.
	All(ctx context.Context, state *hnsd.State) error
}

// Rule makes a new state of another one. A rule that changes nothing returns the same.
type Rule func(*hnsd.State) (*hnsd.State, error)

// Open reads the objects. The data plane is not touched yet.
func Open(o Options) (*Store, error) {
	j, state, err := openJournal(o.Journal)
	if err != nil {
		return nil, err
	}
	// The first line of a new journal is the whole state.
	if state == nil {
		state = o.New()
		if err := j.append(state.Diff(nil), state); err != nil {
			return nil, err
		}
	}
	s := &Store{o: o, journal: j}
	s.current.Store(state.Settled())
	return s, nil
}

// File is where the host in hostDir has its journal.
func File(hostDir string) string { return filepath.Join(hostDir, "hnsd", "state.jsonl") }

// Read returns the objects of a journal that nobody has open; nil if there is none.
func Read(file string) (*hnsd.State, error) { return readJournal(file) }

// State returns the objects as they are now.
func (s *Store) State() *hnsd.State { return s.current.Load() }

// Change runs one change, and tells of it.
// It tells of the change while still nobody else can make one, so that the order is that of the
// changes.
func (s *Store) Change(ctx context.Context, rule Rule) error {
	return s.Alone(func(w Writer) error {
		old := s.State()
		diff, err := w.change(ctx, rule)
		if err == nil && s.o.Told != nil {
			s.o.Told(old, diff)
		}
		return err
	})
}

// Alone calls f while nobody else changes objects.
func (s *Store) Alone(f func(Writer) error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return f(Writer{s})
}

// Writer changes objects while nobody else does. It is of no use after the call that it was given to.
type Writer struct{ s *Store }

// Change runs one change of which HNS itself tells nobody, such as a loss.
func (w Writer) Change(ctx context.Context, rule Rule) error {
	_, err := w.change(ctx, rule)
	return err
}

// change goes through the rule, the data plane and the journal, in this order, and stops at the
// first that refuses.
func (w Writer) change(ctx context.Context, rule Rule) (diff hnsd.Change, err error) {
	s := w.s
	old := s.State()
	next, err := rule(old)
	if err != nil || next == old {
		return diff, err
	}
	diff = next.Diff(old)
	if err := s.o.Carrier.Carry(ctx, old, next, diff); err != nil {
		klog.FromContext(ctx).Error(err, "the data plane refused a change", "change", diff)
		return diff, hnsd.ErrFailed.WithText("%v", err)
	}
	// What was carried is taken back if it cannot be kept: after a restart it would not be there.
	if err := s.journal.append(diff, next); err != nil {
		return diff, hnsd.ErrFailed.WithText("%v", errors.Join(err, s.o.Carrier.All(ctx, old)))
	}

	// From here on readers see the change.
	s.current.Store(next.Settled())
	if s.o.Changed != nil {
		s.o.Changed(ctx, old, next)
	}
	return diff, nil
}
