package scm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"porthole.dev/porthole/internal/atomicfile"
)

// Options of a Manager.
type Options struct {
	Dir      string // where it keeps its files; required, made if it is not there
	Launcher Launcher
	Delayed  time.Duration // how long after the others the delayed services start; 0 means Windows' 2 min
	// Restart begins a restart of the host, which calls Shutdown; nil if it cannot be restarted.
	Restart func() error
}

// Manager starts, stops and configures services. It is safe for concurrent use.
type Manager struct {
	o      Options
	events *eventLog

	mu       sync.Mutex
	services map[string]*service // by folded name
	down     bool                // the host shuts down
	restart  *time.Timer         // of the restart that somebody initiated; nil: nobody has
}

// service is one service with its status.
type service struct {
	Config
	status  Status
	builtin bool        // Windows' own
	marked  bool        // to be deleted when no process has it open and it has stopped
	handles map[int]int // open handles by process

	process  Process // nil: there is none, or it has reported that the service stopped
	dispatch *dispatcher
	failed   failures
	changed  chan struct{} // closed, and replaced by a new one, at each change of the status
}

// dispatcher carries events to the process of a service. The goroutine that serves the process's connection takes them
// one at a time.
type dispatcher struct {
	events chan dispatched
	taken  bool          // a process has it; guarded by the manager's lock
	gone   chan struct{} // closed when the connection has ended
}

// dispatched is what a service's process is told.
type dispatched struct {
	kind    uint32 // SCMStart, SCMControl or SCMEnd
	control uint32
	args    string
	done    chan Code // gets what the handler returned; nil for SCMEnd
}

// databaseFile keeps the configurations of services over restarts of the host.
const databaseFile = "services.json"

// New returns a Manager with the services of the database. No service runs yet; Boot starts the automatic ones.
func New(o Options) (*Manager, error) {
	if o.Delayed == 0 {
		o.Delayed = defaultDelayed
	}
	m := &Manager{o: o, events: &eventLog{dir: o.Dir}, services: map[string]*service{}}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the service database: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(o.Dir, databaseFile))
	var list []Config
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("opening the service database: %w", err)
	}
	for _, c := range list {
		m.services[fold(c.Name)] = newService(c)
	}
	m.addBuiltin()
	return m, nil
}

// newService is a service that does not run.
func newService(c Config) *service {
	return &service{Config: c, status: Status{State: Stopped}, handles: map[int]int{}, changed: make(chan struct{})}
}

// save keeps the configuration of all services that somebody made and that are not marked for deletion.
func (m *Manager) save() error {
	list := []Config{}
	for _, key := range slices.Sorted(maps.Keys(m.services)) {
		if s := m.services[key]; !s.marked && !s.builtin {
			list = append(list, s.Config)
		}
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteThrough(filepath.Join(m.o.Dir, databaseFile), append(data, '\n'), 0o644)
}

// find returns the service; the manager is locked.
func (m *Manager) find(name string) (*service, Code) {
	if s := m.services[fold(name)]; s != nil {
		return s, OK
	}
	return nil, DoesNotExist
}

// configs are those of all services, by folded name. The caller holds the lock.
func (m *Manager) configs() map[string]Config {
	all := map[string]Config{}
	for key, s := range m.services {
		all[key] = s.Config
	}
	return all
}

// Create adds a service and opens it for the process.
func (m *Manager) Create(c Config, pid int) Code {
	m.mu.Lock()
	defer m.mu.Unlock()
	// The limits are those of CreateService: 256 characters, and no slashes.
	if c.Name == "" || len(c.Name) > 256 || strings.ContainsAny(c.Name, `/\`) || c.Path == "" ||
		c.Start < StartAutomatic || c.Start > StartDisabled {
		return InvalidParameter
	}
	// A service that was marked for deletion is gone once nobody has it open.
	m.collect(fold(c.Name))
	if s := m.services[fold(c.Name)]; s != nil {
		if s.marked {
			return MarkedForDelete
		}
		return Exists
	}
	if c.DisplayName == "" {
		c.DisplayName = c.Name
	}
	if c.Account == "" {
		c.Account = "LocalSystem"
	}
	c.PreshutdownTimeout = uint32(defaultPreshutdown.Milliseconds())
	all := m.configs()
	all[fold(c.Name)] = c
	if circular(all, c.Name) {
		return CircularDependency
	}

	s := newService(c)
	s.handles[pid]++
	m.services[fold(c.Name)] = s
	m.events.event(7045, "Information",
		"A service was installed in the system.\nService Name: %s\nService File Name: %s", c.Name, c.Path)
	return m.saved()
}

// saved is save with a code as its result. An error is written to the event log.
func (m *Manager) saved() Code {
	if err := m.save(); err != nil {
		m.events.event(7000, "Error", "saving the service database: %v", err)
		return FileNotFound
	}
	return OK
}

// Open opens a service for the process.
func (m *Manager) Open(name string, pid int) Code {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collect(fold(name))
	s, code := m.find(name)
	if code == OK {
		s.handles[pid]++
	}
	return code
}

// Close closes one handle of the process.
func (m *Manager) Close(name string, pid int) Code {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, code := m.find(name)
	if code != OK {
		return code
	}
	if s.handles[pid]--; s.handles[pid] <= 0 {
		delete(s.handles, pid)
	}
	m.collect(fold(name))
	return OK
}

// Delete marks a service for deletion. It is deleted when no process has it open and it has stopped.
func (m *Manager) Delete(name string) Code {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, code := m.find(name)
	if code != OK {
		return code
	}
	if s.marked {
		return MarkedForDelete
	}
	s.marked = true
	return m.saved()
}

// collect deletes a marked service if it has stopped and no process has it open. Handles of processes that have ended
// do not count.
func (m *Manager) collect(key string) {
	s := m.services[key]
	if s == nil || !s.marked || s.status.State != Stopped {
		return
	}
	for pid := range s.handles {
		if !m.o.Launcher.Alive(pid) {
			delete(s.handles, pid)
		}
	}
	if len(s.handles) == 0 {
		delete(m.services, key)
	}
}

// Change changes the configuration of a service by a function, which may refuse.
func (m *Manager) Change(name string, change func(*Config) Code) Code {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, code := m.find(name)
	if code != OK {
		return code
	}
	if s.marked {
		return MarkedForDelete
	}
	c := s.Config
	if code := change(&c); code != OK {
		return code
	}
	all := m.configs()
	all[fold(name)] = c
	if circular(all, name) {
		return CircularDependency
	}
	s.Config = c
	return m.saved()
}

// Listed is a service with its status.
type Listed struct {
	Config
	Status Status `json:"status"`
	// Failures since the host started or the count was reset.
	Failures int `json:"failures"`
	// Builtin: the service is Windows' own.
	Builtin bool `json:"-"`
}

// Get returns one service.
func (m *Manager) Get(name string) (Listed, Code) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, code := m.find(name)
	if code != OK {
		return Listed{}, code
	}
	return Listed{s.Config, s.status, s.failed.count, s.builtin}, OK
}

// List returns all services by name.
func (m *Manager) List() []Listed {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []Listed{}
	for _, key := range slices.Sorted(maps.Keys(m.services)) {
		s := m.services[key]
		list = append(list, Listed{s.Config, s.status, s.failed.count, s.builtin})
	}
	return list
}

// Dependents lists the services that depend on one directly, by name.
func (m *Manager) Dependents(name string) []Listed {
	return slices.DeleteFunc(m.List(), func(l Listed) bool {
		return !slices.ContainsFunc(l.Dependencies, func(d string) bool { return fold(d) == fold(name) })
	})
}

// set changes the status and wakes the goroutines that wait for a change. The caller holds the lock.
func (m *Manager) set(s *service, status Status) {
	before := s.status.State
	s.status = status
	close(s.changed)
	s.changed = make(chan struct{})
	if status.State != before && (status.State == Running || status.State == Stopped) {
		m.events.event(7036, "Information", "The %s service entered the %s state.", s.DisplayName, status.State)
	}
}
