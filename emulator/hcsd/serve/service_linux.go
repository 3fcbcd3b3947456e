package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hnsd/fault"
	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/beneath"
)

// Service is one running HCS.
type Service struct {
	o          Options
	rt         runc
	operations map[string]operation // by function

	mu          sync.Mutex
	systems     hcsd.Systems          // under mu
	live        map[string]*container // by id; under mu
	subscribers map[*subscriber]bool  // under mu
	credentials hcsd.Credentials      // under mu

	layers sync.Mutex       // one change of layers and silos at a time
	silos  map[string]*silo // by the name of the job, "" for mappings without one; under layers

	calls  daemon.Counter
	faults fault.Rules
}

// container is what belongs to a system besides what is decided of it.
type container struct {
	id, key string

	// Adopted: an earlier hcsd made it. Its handles are not known, so that it does not end with the last one.
	Adopted bool
	// Init is its first process; nil before the system starts.
	Init *process
	// Programs are by pid.
	Programs map[uint32]*program
	// Last numbers the programs.
	Last int

	handles   int
	launching chan struct{} // holds one token: programs are started one after another
	ended     chan struct{} // closed when Init has ended
	stopping  bool
	kills     uint64        // memoryKills that are taken for the end of a program
	told      processorTime // the figures that were told last
}

// program is one of a container's processes.
type program struct {
	Number  int     // names its files
	Process process // the launcher
	handles int
	io      *streams
}

// opened is a handle that a connection holds; pid 0 is the system.
type opened struct {
	id  string
	pid uint32
}

// saved is the state on disk.
type saved struct {
	Systems     hcsd.Systems
	Containers  map[string]*container
	Credentials hcsd.Credentials
}

func newService(o Options) *Service {
	s := &Service{o: o, rt: runc{o.Runc, o.path("runc")}, systems: hcsd.Systems{}, live: map[string]*container{},
		subscribers: map[*subscriber]bool{}, silos: map[string]*silo{},
		credentials: hcsd.Credentials{}}
	s.operations = s.functions()
	return s
}

func newContainer(id string) *container {
	c := &container{id: id, key: keyOf(id), Programs: map[uint32]*program{}}
	c.prepare()
	return c
}

func (c *container) prepare() {
	c.launching, c.ended = make(chan struct{}, 1), make(chan struct{})
}

// save writes the state; under mu.
func (s *Service) save() error {
	data, err := json.Marshal(saved{s.systems, s.live, s.credentials})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.o.path("state.json"), data, 0o600); err != nil {
		return fmt.Errorf("writing the state of HCS: %w", err)
	}
	return nil
}

// restore reads the state that an earlier hcsd left, and watches what still runs. What has ended meanwhile is removed,
// and so is what was not started yet: nobody has a handle of it any more.
func (s *Service) restore(ctx context.Context) error {
	data, err := os.ReadFile(s.o.path("state.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the state of HCS: %w", err)
	}
	var have saved
	if err == nil {
		if err := json.Unmarshal(data, &have); err != nil {
			return fmt.Errorf("reading the state of HCS: %w", err)
		}
	}

	if err := (siloCalls{s}).restoreSilos(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.credentials, have.Credentials)
	known := map[string]bool{}
	for id, sys := range have.Systems {
		c := have.Containers[id]
		if c == nil || sys.State != hcsd.Running || !c.Init.alive() {
			continue
		}
		c.id, c.key, c.Adopted = id, keyOf(id), true
		c.prepare()
		s.systems[id], s.live[id] = sys, c
		known[c.key] = true
		s.adopt(ctx, sys, c)
	}
	if err := s.sweep(ctx, known); err != nil {
		klog.FromContext(ctx).Error(err, "Removing what an earlier HCS left")
	}
	return s.save()
}

// adopt watches the container of a system and its programs; under mu.
func (s *Service) adopt(ctx context.Context, sys *hcsd.System, c *container) {
	if sys.State != hcsd.Running {
		return
	}
	go systemCalls{s}.watchContainer(ctx, c, *c.Init)
	if _, err := (systemCalls{s}).listenPipes(ctx, c, sys.Doc.Container.MappedPipes); err != nil {
		klog.FromContext(ctx).Error(err, "Taking over a container", "system", c.id)
	}
	c.kills = memoryKills(c.Init.Pid)
	c.Last = max(c.Last, s.o.lastProgram(c.key))
	for pid, p := range c.Programs {
		p.io = reopenStreams(s.o.systemDir(c.key), p.Number)
		if rec := sys.Processes[pid]; rec != nil && !rec.Exited {
			go programCalls{s}.watchProgram(ctx, c, p)
		}
	}
}

// sweep removes the containers that are in no system; under mu.
func (s *Service) sweep(ctx context.Context, known map[string]bool) error {
	entries, err := os.ReadDir(s.o.path("systems"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !known[e.Name()] {
			err = errors.Join(err, s.rt.delete(ctx, e.Name()), beneath.RemoveAll(s.o.systemDir(e.Name())))
		}
	}
	return err
}

// closed closes the handles of a connection that has ended.
func (s *Service) closed(ctx context.Context, open []opened) {
	for _, o := range open {
		s.mu.Lock()
		s.release(ctx, o)
		s.mu.Unlock()
	}
}

// release closes one handle; under mu. With the last handle a system ends that was made so, and one that has ended is
// forgotten.
func (s *Service) release(ctx context.Context, o opened) {
	c, sys := s.live[o.id], s.systems[o.id]
	if c == nil || sys == nil {
		return
	}
	if o.pid != 0 {
		p := c.Programs[o.pid]
		if p == nil {
			return
		}
		if p.handles--; p.handles <= 0 && sys.Processes[o.pid] != nil && sys.Processes[o.pid].Exited {
			s.forgetProgram(c, sys, o.pid)
		}
		return
	}

	if c.handles--; c.handles > 0 {
		return
	}
	switch {
	case sys.State == hcsd.Stopped || sys.State == hcsd.Created && !c.Adopted:
		s.forget(ctx, c)
	case sys.Doc.ShouldTerminateOnLastHandleClosed && !c.Adopted:
		systemCalls{s}.terminate(ctx, c)
	}
}

// forgetProgram removes the record of a program that has ended; under mu.
func (s *Service) forgetProgram(c *container, sys *hcsd.System, pid uint32) {
	p := c.Programs[pid]
	delete(c.Programs, pid)
	delete(sys.Processes, pid)
	p.io.close()
	s.o.removeProgramFiles(c.key, p.Number)
}

// forget removes a system that does not run, and its folder; under mu.
func (s *Service) forget(ctx context.Context, c *container) {
	delete(s.systems, c.id)
	delete(s.live, c.id)
	for _, p := range c.Programs {
		p.io.close()
	}
	err := errors.Join(s.save(), s.rt.delete(ctx, c.key), beneath.RemoveAll(s.o.systemDir(c.key)))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Removing a container", "system", c.id)
	}
}

// tell sends notifications to the callbacks that they are for; under mu.
func (s *Service) tell(list []hcsd.Notification) {
	for _, n := range list {
		for sub := range s.subscribers {
			if sub.id == n.System && sub.pid == n.Pid {
				sub.add(n)
			}
		}
	}
}

// now is the time that records get.
func now() time.Time { return time.Now().UTC() }
