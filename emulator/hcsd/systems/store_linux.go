package systems

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
	"porthole.dev/porthole/emulator/hcsd/handles"
	"porthole.dev/porthole/internal/atomicfile"
)

// Store owns all systems of a host. It is safe for concurrent use.
//
// It keeps that
//   - each system has exactly one Instance, and nothing outside of the store changes either;
//   - a system that is Running has a first process, and each of its processes that has not ended a Program;
//   - a system that is Stopped, or a process that has ended, is there for as long as somebody has a handle of it;
//   - the file has all of it whenever a call has returned without an error.
//
// Its lock is held while files of what is forgotten are removed, so that a system of the same id cannot be started
// meanwhile. Under its lock it calls the store of handles, and nobody else outside of the package.
type Store struct {
	file      string // keeps the state for the next hcsd
	folders   folders
	handles   *handles.Store
	callbacks callbacks

	mu        sync.Mutex
	systems   hcsd.Systems
	instances map[string]*Instance // by id
}

// folders removes what is on disk of what is forgotten. *container.Runtime does.
type folders interface {
	// Remove ends the container of a key and removes its folder. Nothing there is success.
	Remove(ctx context.Context, key string) error
	// RemoveProgram removes the files of the program with a number.
	RemoveProgram(key string, number int)
}

// New returns a store without systems, which keeps its state in a file.
func New(file string, f folders, h *handles.Store) *Store {
	return &Store{file: file, folders: f, handles: h, systems: hcsd.Systems{}, instances: map[string]*Instance{}}
}

// get finds a system; under mu.
func (s *Store) get(id string) (*hcsd.System, *Instance, error) {
	sys, err := s.systems.Get(id)
	if err != nil {
		return nil, nil, err
	}
	return sys, s.instances[id], nil
}

// systemOf is the system whose life i is, nil if that has been forgotten; under mu.
func (s *Store) systemOf(i *Instance) *hcsd.System {
	if s.instances[i.ID] != i {
		return nil
	}
	return s.systems[i.ID]
}

// Create makes a system of a document, and gives the connection a handle of it.
func (s *Store) Create(c handles.Connection, id, document string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.systems[id]; old != nil && old.State == hcsd.Stopped {
		return hcsd.ErrSystemExists // somebody has it open
	}
	if _, err := s.systems.Create(id, document, now); err != nil {
		return err
	}
	s.instances[id] = newInstance(id)
	if err := s.save(); err != nil {
		delete(s.systems, id)
		delete(s.instances, id)
		return err
	}
	s.handles.Open(c, handles.Ref{System: id})
	return nil
}

// Open gives a connection a handle of a system or of a process, which must not have ended.
func (s *Store) Open(c handles.Connection, r handles.Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if r.Pid == 0 {
		_, err = s.systems.Open(r.System)
	} else {
		var sys *hcsd.System
		if sys, err = s.systems.Get(r.System); err == nil {
			_, err = sys.OpenProcess(r.Pid)
		}
	}
	if err == nil {
		s.handles.Open(c, r)
	}
	return err
}

// Startable returns a system that was created and not started, with its document. Nobody else starts something in it
// before done is called.
func (s *Store) Startable(id string) (i *Instance, doc hcsd.Container, done func(), err error) {
	created := func() (*Instance, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		sys, i, err := s.get(id)
		if err == nil {
			err = sys.Begin()
		}
		if err == nil {
			doc = *sys.Doc.Container
		}
		return i, err
	}
	if i, err = created(); err != nil {
		return nil, doc, nil, err
	}

	done = i.Starting()
	again, err := created() // another call may have started it meanwhile
	if err == nil && again != i {
		err = hcsd.ErrSystemNotFound
	}
	if err != nil {
		done()
		return nil, doc, nil, err
	}
	return i, doc, done, nil
}

// Started records that a system runs, whose first process is init. It is an error if another call has started or ended
// the system since Startable, or if that cannot be kept: then nothing has changed, and init is the caller's to end.
func (s *Store) Started(i *Instance, init container.Process, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys := s.systemOf(i)
	if sys == nil {
		return hcsd.ErrSystemNotFound
	}
	if err := sys.Begin(); err != nil {
		return err
	}
	started := sys.Run(now)
	i.init = &init
	if err := s.save(); err != nil {
		sys.State = hcsd.Created
		sys.Started = time.Time{}
		i.init = nil
		return err
	}
	s.callbacks.tell([]hcsd.Notification{started})
	return nil
}

// Running returns a system that runs and its first process.
func (s *Store) Running(id string) (*Instance, container.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, i, err := s.get(id)
	if err == nil {
		err = sys.Running()
	}
	if err != nil {
		return nil, container.Process{}, err
	}
	return i, *i.init, nil
}

// Stop records that a system is to end, and returns hcsd.ErrPending. One that runs is returned, for the caller to kill
// its first process; kill is nil if there is none, or if the end was asked for before.
func (s *Store) Stop(id string) (kill *container.Process, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, i, err := s.get(id)
	if err != nil {
		return nil, err
	}
	return s.stop(sys, i)
}

// StopAll is Stop for all systems. It returns the processes to kill.
func (s *Store) StopAll() (kill []*container.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sys := range s.systems {
		if p, _ := s.stop(sys, s.instances[id]); p != nil { // an error says that it has ended
			kill = append(kill, p)
		}
	}
	return kill
}

// stop is Stop; under mu.
func (s *Store) stop(sys *hcsd.System, i *Instance) (kill *container.Process, err error) {
	err = sys.Stop()
	if !errors.Is(err, hcsd.ErrPending) || i.stopping {
		return nil, err
	}
	i.stopping = true
	if i.init == nil {
		s.callbacks.tell(sys.End(0, Killed))
		return nil, err
	}
	p := *i.init
	return &p, err
}

// Ended records that the first process of a system has ended, and with it everything in its container. A system that
// was not asked to end has ended unexpectedly.
func (s *Store) Ended(ctx context.Context, i *Instance) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys := s.systemOf(i)
	if sys == nil {
		return nil
	}
	status := uint32(0)
	if !i.stopping {
		status = hcsd.ErrUnexpectedExit.Code
	}
	s.callbacks.tell(sys.End(status, Killed))
	close(i.ended)
	if !s.handles.Held(handles.Ref{System: i.ID}) {
		return s.forget(ctx, i)
	}
	return s.save()
}

// forget removes a system that does not run, and its folder; under mu.
func (s *Store) forget(ctx context.Context, i *Instance) error {
	delete(s.systems, i.ID)
	delete(s.instances, i.ID)
	for _, p := range i.programs {
		p.Streams.Close()
	}
	if err := errors.Join(s.save(), s.folders.Remove(ctx, i.Key)); err != nil {
		return fmt.Errorf("removing the system %s: %w", i.ID, err)
	}
	return nil
}

// Released is called with what nobody has a handle of any more. What has ended is forgotten then, and a system ends
// that was made so; the processes to kill are returned. What has been opened again meanwhile stays.
func (s *Store) Released(ctx context.Context, refs []handles.Ref) (kill []*container.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		sys, i, err := s.get(r.System)
		if err != nil || s.handles.Held(r) {
			continue
		}
		if r.Pid != 0 {
			if rec := sys.Processes[r.Pid]; rec != nil && rec.Exited {
				i.forgetProgram(sys, r.Pid, s.folders)
			}
			continue
		}

		switch {
		case sys.State == hcsd.Stopped, sys.State == hcsd.Created && !i.adopted:
			if err := s.forget(ctx, i); err != nil {
				klog.FromContext(ctx).Error(err, "The last handle of a system was closed")
			}
		case sys.Doc.ShouldTerminateOnLastHandleClosed && !i.adopted:
			if p, _ := s.stop(sys, i); p != nil {
				kill = append(kill, p)
			}
		}
	}
	return kill
}

// saved is the state on disk.
type saved struct {
	Systems    hcsd.Systems
	Containers map[string]*savedInstance
}

type savedInstance struct {
	Adopted  bool
	Init     *container.Process
	Programs map[uint32]*Program
	Last     int
}

// save writes the state; under mu.
func (s *Store) save() error {
	state := saved{s.systems, map[string]*savedInstance{}}
	for id, i := range s.instances {
		state.Containers[id] = &savedInstance{i.adopted, i.init, i.programs, i.last}
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.file, data, 0o600); err != nil {
		return fmt.Errorf("writing the state of HCS: %w", err)
	}
	return nil
}
