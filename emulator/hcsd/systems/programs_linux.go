package systems

import (
	"time"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/container"
	"porthole.dev/porthole/emulator/hcsd/handles"
)

// Exit codes of programs that do not end by themselves.
const (
	// Killed is that of a program that was terminated (ERROR_PROCESS_ABORTED): unverified, no. 92.
	Killed = 1067
	// noMemory is that of a program that Linux killed because of its container's memory limit
	// (STATUS_COMMITMENT_LIMIT). On Windows an allocation fails, and the program says how it ends: unverified, no. 95.
	noMemory = 0xc000012d
	// ofKilled is the largest code that Wine gives a program which Linux has killed: Wine 8.0 says 0 of it, and 10.0
	// says 1 (both seen). A program that ends so by itself, after Linux has killed another one of its container, is
	// taken for one of these.
	ofKilled = 1
)

// Exit is the end of a program as it was seen.
type Exit struct {
	Code  uint32
	Told  bool   // the launcher has told the code; without, Code means nothing
	Kills uint64 // how many processes of the container Linux has killed so far for lack of memory
}

// NextProgram numbers a program that is about to be started, and returns the host name that it sees. A number is used
// once, also if the program does not start.
func (s *Store) NextProgram(i *Instance) (number int, hostname string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.last++
	if sys := s.systemOf(i); sys != nil && sys.Doc.Container.GuestOs != nil {
		hostname = sys.Doc.Container.GuestOs.HostName
	}
	return i.last, hostname
}

// AddProgram records a program that was started, and gives the connection a handle of it. It is an error if the system
// does not run any more, or if that cannot be kept: then nothing has changed, and the program is the caller's to end.
func (s *Store) AddProgram(c handles.Connection, i *Instance, p *Program, doc hcsd.Process, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys := s.systemOf(i)
	if sys == nil {
		return hcsd.ErrAlreadyStopped
	}
	if err := sys.Running(); err != nil {
		return err
	}
	pid := uint32(p.Process.Pid)
	i.programs[pid] = p
	sys.AddProcess(pid, doc, now)
	if err := s.save(); err != nil {
		delete(i.programs, pid)
		delete(sys.Processes, pid)
		return err
	}
	s.handles.Open(c, handles.Ref{System: i.ID, Pid: pid})
	return nil
}

// ProgramEnded records the end of a program. One of which nobody has a handle is forgotten.
func (s *Store) ProgramEnded(i *Instance, p *Program, e Exit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sys, pid := s.systemOf(i), uint32(p.Process.Pid)
	if sys == nil {
		return nil
	}
	code := e.Code
	if !e.Told {
		code = Killed
	}
	if (!e.Told || code <= ofKilled) && e.Kills > i.kills {
		code = noMemory // the kernel may choose its launcher too, which then tells nothing
	}
	i.kills = max(i.kills, e.Kills)
	s.callbacks.tell(sys.EndProcess(pid, code))
	if i.programs[pid] == p && !s.handles.Held(handles.Ref{System: i.ID, Pid: pid}) {
		i.forgetProgram(sys, pid, s.folders)
	}
	return s.save()
}

// forgetProgram removes the record of a program that has ended; under the lock of its store.
func (i *Instance) forgetProgram(sys *hcsd.System, pid uint32, f folders) {
	p := i.programs[pid]
	delete(i.programs, pid)
	delete(sys.Processes, pid)
	if p == nil {
		return
	}
	p.Streams.Close()
	f.RemoveProgram(i.Key, p.Number)
}

// program finds a program and what is decided of it; under mu.
func (s *Store) program(id string, pid uint32) (*hcsd.Started, *Instance, *Program, error) {
	sys, i, err := s.get(id)
	if err != nil {
		return nil, nil, nil, err
	}
	rec, err := sys.Process(pid)
	if err != nil {
		return nil, nil, nil, err
	}
	return rec, i, i.programs[pid], nil
}

// WithProgram calls f with a program that runs, which does not end for the host's programs before f has returned. It
// is hcsd.ErrProcessStopped if it has ended.
func (s *Store) WithProgram(id string, pid uint32, f func(key string, p *Program, doc hcsd.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, i, p, err := s.program(id, pid)
	if err != nil {
		return err
	}
	if rec.Exited {
		return hcsd.ErrProcessStopped
	}
	return f(i.Key, p, rec.Doc)
}

// ProgramStatus is what HcsGetProcessProperties answers.
func (s *Store) ProgramStatus(id string, pid uint32) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, _, _, err := s.program(id, pid)
	if err != nil {
		return "", err
	}
	return rec.Status(), nil
}

// Streams returns the standard streams of a program; nil if there is no such program.
func (s *Store) Streams(id string, pid uint32) *container.Streams {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances[id]
	if i == nil || i.programs[pid] == nil {
		return nil
	}
	return i.programs[pid].Streams
}

// CloseStreams closes our ends of all standard streams. Programs go on: what they write waits for the next hcsd.
func (s *Store) CloseStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.instances {
		for _, p := range i.programs {
			p.Streams.Close()
		}
	}
}
