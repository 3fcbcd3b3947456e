package hcsd

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The states of a system, as its properties show them.
const (
	Created = "Created"
	Running = "Running"
	Stopped = "Stopped"
)

// The types of notifications (HCS_NOTIFICATIONS; hcsshim internal/hcs/callback.go).
const (
	SystemExited          = 0x00000001
	SystemCreateCompleted = 0x00000002
	SystemStartCompleted  = 0x00000003
	ProcessExited         = 0x00010000
	ServiceDisconnect     = 0x01000000
)

// Notification tells the callbacks of a system, or of one of its processes, what happened.
type Notification struct {
	System string
	Pid    uint32 // 0: of the system
	Type   uint32
	Status uint32 // HRESULT
}

// Systems are all systems of a host by id. Times come from the caller.
type Systems map[string]*System

// System is one compute system. Its fields are what survives a restart of the service.
type System struct {
	ID        string
	State     string
	Doc       ComputeSystem
	Created   time.Time
	Started   time.Time
	ExitCode  uint32 // HRESULT of its end, for a Stopped one
	Processes map[uint32]*Started
}

// Started is a process of a system. A process that has ended is kept, so that its exit code can be read.
type Started struct {
	Pid    uint32
	Doc    Process
	Begun  time.Time
	Exited bool
	Code   uint32
}

// maxID bounds ids, in bytes.
const maxID = 256

// Create makes a system of a document.
func (all Systems) Create(id, document string, now time.Time) (*System, error) {
	if id == "" || len(id) > maxID || strings.ContainsAny(id, "\x00/\\") {
		return nil, ErrInvalidArgument.WithText("the id %q is not valid", id)
	}
	if s := all[id]; s != nil && s.State != Stopped {
		return nil, ErrSystemExists
	}
	s := &System{ID: id, State: Created, Created: now, Processes: map[uint32]*Started{}}
	if err := Decode(document, &s.Doc); err != nil {
		return nil, err
	}
	if err := s.Doc.Check(); err != nil {
		return nil, err
	}
	all[id] = s
	return s, nil
}

// Open finds a system that a program wants to open.
func (all Systems) Open(id string) (*System, error) {
	s := all[id]
	if s == nil || s.State == Stopped {
		return nil, ErrSystemNotFound
	}
	return s, nil
}

// Get finds a system that a program has open.
func (all Systems) Get(id string) (*System, error) {
	s := all[id]
	if s == nil {
		return nil, ErrSystemNotFound
	}
	return s, nil
}

// Begin returns nil if the system can be started.
func (s *System) Begin() error {
	switch s.State {
	case Created:
		return nil
	case Stopped:
		return ErrAlreadyStopped
	}
	return ErrInvalidState
}

// Run records that the compute system was started at the time now. It returns the notification that has to be sent to
// the callbacks that are registered for the system.
func (s *System) Run(now time.Time) Notification {
	s.State, s.Started = Running, now
	return Notification{System: s.ID, Type: SystemStartCompleted}
}

// Running returns nil if programs can be started in the system, or the system be asked about them.
func (s *System) Running() error {
	switch s.State {
	case Running:
		return nil
	case Stopped:
		return ErrAlreadyStopped
	}
	return ErrInvalidState
}

// Stop returns what a shutdown or termination is answered: that it is under way, or why it is not.
func (s *System) Stop() error {
	if s.State == Stopped {
		return ErrAlreadyStopped
	}
	return ErrPending
}

// End notes that the system has ended; its processes end with it. status is the HRESULT that its callbacks get.
func (s *System) End(status, code uint32) []Notification {
	if s.State == Stopped {
		return nil
	}
	var list []Notification
	for _, pid := range slices.Sorted(maps.Keys(s.Processes)) {
		list = append(list, s.EndProcess(pid, code)...)
	}
	s.State, s.ExitCode = Stopped, status
	return append(list, Notification{System: s.ID, Type: SystemExited, Status: status})
}

// Process finds a process of the system.
func (s *System) Process(pid uint32) (*Started, error) {
	p := s.Processes[pid]
	if p == nil {
		return nil, ErrElementNotFound
	}
	return p, nil
}

// OpenProcess finds a process that a program wants to open.
func (s *System) OpenProcess(pid uint32) (*Started, error) {
	p, err := s.Process(pid)
	if err == nil && p.Exited {
		return nil, ErrElementNotFound
	}
	return p, err
}

// AddProcess notes a process that was started.
func (s *System) AddProcess(pid uint32, doc Process, now time.Time) *Started {
	p := &Started{Pid: pid, Doc: doc, Begun: now}
	s.Processes[pid] = p
	return p
}

// EndProcess notes that a process has ended. Nothing is notified of one that had ended before.
func (s *System) EndProcess(pid, code uint32) []Notification {
	p := s.Processes[pid]
	if p == nil || p.Exited {
		return nil
	}
	p.Exited, p.Code = true, code
	return []Notification{{System: s.ID, Pid: pid, Type: ProcessExited}}
}

// Past are the notifications that a callback gets at once when it is registered, because they happened before:
// unverified, no. 91.
func (s *System) Past(pid uint32) []Notification {
	if pid != 0 {
		if p := s.Processes[pid]; p != nil && p.Exited {
			return []Notification{{System: s.ID, Pid: pid, Type: ProcessExited}}
		}
		return nil
	}
	if s.State == Stopped {
		return []Notification{{System: s.ID, Type: SystemExited, Status: s.ExitCode}}
	}
	return nil
}
