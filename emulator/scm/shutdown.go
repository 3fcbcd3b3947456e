package scm

import (
	"sync"
	"time"
)

// Ended is how a service ended at shutdown.
type Ended struct {
	Service string        `json:"service"`
	Phase   string        `json:"phase"` // preshutdown, shutdown or killed
	Took    time.Duration `json:"took"`
}

// Shutdown ends all services as Windows does. Services that accept the pre-shutdown control get it first, in the
// registry's order, and each has the time of its configuration. Then those that accept the shutdown control get it,
// with 20 s for all. Then processes are killed. No service starts after that.
func (m *Manager) Shutdown() []Ended {
	m.mu.Lock()
	m.down = true
	m.mu.Unlock()
	s := shutdown{m}
	var mu sync.Mutex
	var ended []Ended
	tell := func(name string, control uint32, phase string, limit time.Duration) {
		start := time.Now()
		if s.tell(name, control, limit) {
			mu.Lock()
			ended = append(ended, Ended{name, phase, time.Since(start)})
			mu.Unlock()
		} else {
			m.events.event(7043, "Error", "The %s service did not shut down properly after receiving a %s control.",
				name, phase)
		}
	}

	// The registry names the services that are told one after the other; the rest follows together.
	first, rest := shutdownOrder(s.accepting(acceptPreshutdown), m.o.Launcher.PreshutdownOrder())
	for _, name := range first {
		tell(name, controlPreshutdown, "preshutdown", s.preshutdown(name))
	}
	var wg sync.WaitGroup
	for _, name := range rest {
		wg.Go(func() { tell(name, controlPreshutdown, "preshutdown", s.preshutdown(name)) })
	}
	wg.Wait()
	for _, name := range s.accepting(acceptShutdown) {
		wg.Go(func() { tell(name, controlShutdown, "shutdown", defaultWaitToKill) })
	}
	wg.Wait()

	m.mu.Lock()
	defer m.mu.Unlock()
	for _, left := range m.services {
		if left.process != nil {
			left.process.Kill()
			ended = append(ended, Ended{Service: left.Name, Phase: "killed"})
		}
	}
	return ended
}

// shutdown ends the services of a manager.
type shutdown struct{ m *Manager }

// accepting lists the running services that accept something, by name.
func (s shutdown) accepting(bit uint32) (names []string) {
	for _, l := range s.m.List() {
		if l.Status.State != Stopped && l.Status.Accepts&bit != 0 {
			names = append(names, l.Name)
		}
	}
	return names
}

// preshutdown is how long a service may take after the pre-shutdown control.
func (s shutdown) preshutdown(name string) time.Duration {
	l, _ := s.m.Get(name)
	return time.Duration(l.PreshutdownTimeout) * time.Millisecond
}

// tell sends a control and reports whether the service stopped within the limit.
func (s shutdown) tell(name string, control uint32, limit time.Duration) bool {
	s.m.mu.Lock()
	found, code := s.m.find(name)
	if code != OK {
		s.m.mu.Unlock()
		return true
	}
	d := found.dispatch
	s.m.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	go func() { _ = d.send(control) }() // one that does not answer is ended
	return s.m.await(name, timer.C, func(st Status) bool { return st.State == Stopped }) == Stopped
}
