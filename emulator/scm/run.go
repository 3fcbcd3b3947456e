package scm

import (
	"errors"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/wire"
)

// Start starts a service, after those that it depends on. It returns OK when the service's process has connected and
// got the start event; the status then shows whether the service runs.
func (m *Manager) Start(name string, args []string) Code {
	m.mu.Lock()
	s, code := m.find(name)
	switch {
	case code != OK:
	case m.down:
		code = ShutdownInProgress
	case s.marked:
		code = MarkedForDelete
	case s.Config.Start == StartDisabled:
		code = Disabled
	case s.status.State != Stopped:
		code = AlreadyRunning
	}
	if code != OK {
		m.mu.Unlock()
		return code
	}
	// The state is set before the lock is given up, so that a second start is refused.
	m.set(s, Status{State: StartPending, Hint: 2000})
	display := s.DisplayName
	dependencies := slices.Clone(s.Dependencies)
	m.mu.Unlock()

	for _, d := range dependencies {
		if code = m.startDependency(d); code != OK {
			m.fail(s, code, 7001, "The %s service depends on the %s service which failed to start: error %d.", display,
				d, code)
			return code
		}
	}
	return m.launch(s, args)
}

// startDependency starts a service and returns OK when it runs. It ignores groups (+NAME), which are not supported.
func (m *Manager) startDependency(name string) Code {
	if strings.HasPrefix(name, "+") {
		return OK
	}
	switch code := m.Start(name, nil); code {
	case OK, AlreadyRunning:
	case DoesNotExist:
		return DependencyMissing
	default:
		return DependencyFailed
	}
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	if m.await(name, limit.C, func(st Status) bool { return st.State == Running || st.State == Stopped }) != Running {
		return DependencyFailed
	}
	return OK
}

// await waits until the status is as wanted or limit fires, and returns the state. It returns Stopped if there is no
// such service.
func (m *Manager) await(name string, limit <-chan time.Time, wanted func(Status) bool) State {
	for {
		m.mu.Lock()
		s, code := m.find(name)
		if code != OK {
			m.mu.Unlock()
			return Stopped
		}
		status, changed := s.status, s.changed
		m.mu.Unlock()
		if wanted(status) {
			return status.State
		}
		select {
		case <-changed:
		case <-limit:
			return status.State
		}
	}
}

// fail ends a start that did not succeed.
func (m *Manager) fail(s *service, code Code, id uint32, text string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.process, s.dispatch = nil, nil
	m.set(s, Status{State: Stopped, Exit: code})
	m.events.event(id, "Error", text, args...)
	m.collect(fold(s.Name))
}

// launch starts the process and waits for it to be a service.
func (m *Manager) launch(s *service, args []string) Code {
	d := &dispatcher{events: make(chan dispatched), gone: make(chan struct{})}
	m.mu.Lock()
	line, display := s.Path, s.DisplayName
	p, err := m.o.Launcher.Launch(s.Name, line) // under the lock, because the process may call Dispatch at once
	if err == nil {
		s.process, s.dispatch = p, d
	}
	m.mu.Unlock()
	if err != nil {
		code := FileNotFound
		errors.As(err, &code)
		m.fail(s, code, 7000, "The %s service failed to start: %v (%s)", display, err, line)
		return code
	}
	go m.watch(s, p)

	done := make(chan Code, 1)
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	select {
	case d.events <- dispatched{kind: wire.SCMStart,
		args: strings.Join(append([]string{s.Name}, args...), wire.Item) + wire.Item, done: done}:
		return OK
	case <-p.Done(): // one that is no service, and has done its work
	case <-limit.C:
		p.Kill()
	}
	// A process that never was a service has not failed as one: no recovery action follows (unverified, no. 68).
	m.fail(s, RequestTimeout, 7000,
		"The %s service failed to start: error 1053: it did not respond to the start request in a timely fashion (30000 ms).",
		display)
	return RequestTimeout
}

// watch waits for the end of a process. If the process has not reported before that its service stopped, the service
// has failed.
func (m *Manager) watch(s *service, p Process) {
	<-p.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.process != p || s.dispatch == nil || !s.dispatch.taken {
		return // another one by now, or it never answered
	}
	s.process, s.dispatch = nil, nil
	m.set(s, Status{State: Stopped, Exit: ProcessAborted})
	m.recover(s, "terminated unexpectedly")
}

// Dispatch gives a process the connection of its service. It fails for a process that the manager did not start, or
// that has done this before.
func (m *Manager) Dispatch(pid int) (name string, d *dispatcher, code Code) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.services {
		if s.process != nil && s.process.PID() == pid && s.dispatch != nil && !s.dispatch.taken {
			s.dispatch.taken = true
			return s.Name, s.dispatch, OK
		}
	}
	return "", nil, NotStartedByManager
}

// Report sets the status that a service reports. pid is its Linux process id, windowsPID the one that Windows programs
// see.
func (m *Manager) Report(pid int, windowsPID uint32, status Status) Code {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.services {
		if s.process == nil || s.process.PID() != pid {
			continue
		}
		status.PID = windowsPID
		if status.State != Stopped {
			m.set(s, status)
			return OK
		}
		m.stopped(s, status)
		return OK
	}
	return InvalidHandle
}

// stopped ends a service that has reported that it stopped. The caller holds the lock.
func (m *Manager) stopped(s *service, status Status) {
	d := s.dispatch
	s.process, s.dispatch = nil, nil
	status.PID, status.Accepts = 0, 0
	m.set(s, status)
	if d.taken { // otherwise nothing reads events, and nothing ever closes gone
		go func() {
			select {
			case d.events <- dispatched{kind: wire.SCMEnd}:
			case <-d.gone:
			}
		}()
	}
	if status.Exit != OK {
		m.events.event(7023, "Error", "The %s service terminated with the following error: %d (service specific %d)",
			s.DisplayName, status.Exit, status.Specific)
		if s.Failure.NonCrash {
			m.recover(s, "terminated with an error")
		}
	}
	m.collect(fold(s.Name))
}

// recover counts a failure and carries out the service's recovery action. The caller holds the lock.
func (m *Manager) recover(s *service, how string) {
	if m.down {
		return
	}
	action, ok := s.failed.next(s.Failure, time.Now())
	if !ok {
		m.events.event(7034, "Error", "The %s service %s. It has done this %d time(s).", s.DisplayName, how,
			s.failed.count)
		m.collect(fold(s.Name))
		return
	}

	what := map[uint32]string{restartAction: "Restart the service", rebootAction: "Reboot the machine",
		commandAction: "Run the configured recovery program"}[action.Type]
	m.events.event(7031, "Error",
		"The %s service %s. It has done this %d time(s). The following corrective action will be taken in %d milliseconds: %s.",
		s.DisplayName, how, s.failed.count, action.Delay, what)
	name, command := s.Name, s.Failure.Command
	time.AfterFunc(time.Duration(action.Delay)*time.Millisecond, func() {
		switch action.Type {
		case restartAction:
			_ = m.Start(name, nil) // the log has what goes wrong
		case rebootAction:
			_ = restarts{m}.initiate(0, "The service "+name+" failed.")
		case commandAction:
			if _, err := m.o.Launcher.Launch("", command); err != nil {
				m.events.event(7000, "Error", "The recovery program %s failed to start: %v", command, err)
			}
		}
	})
}

// Control sends a control to a service and returns its status.
func (m *Manager) Control(name string, control uint32) (Status, Code) {
	m.mu.Lock()
	s, code := m.find(name)
	if code != OK {
		m.mu.Unlock()
		return Status{}, code
	}
	status, d := s.status, s.dispatch
	switch {
	case control != controlStop && control != controlQuery && (control < 128 || control > 255):
		code = InvalidControl
	case status.State == Stopped:
		code = NotActive
	case control == controlStop && (status.State == StartPending || status.State == StopPending):
		code = CannotAcceptControl
	case control == controlStop && status.Accepts&acceptStop == 0:
		code = InvalidControl
	case control == controlStop && m.neededByOthers(s.Name):
		code = DependentsRunning
	}
	m.mu.Unlock()
	if code != OK {
		return status, code
	}

	code = d.send(control)
	l, _ := m.Get(name)
	return l.Status, code
}

// neededByOthers reports whether a service that runs depends on this one. The caller holds the
// lock.
func (m *Manager) neededByOthers(name string) bool {
	for _, s := range m.services {
		if s.status.State != Stopped &&
			slices.ContainsFunc(s.Dependencies, func(d string) bool { return fold(d) == fold(name) }) {
			return true
		}
	}
	return false
}

// send delivers a control and waits for the handler to return.
func (d *dispatcher) send(control uint32) Code {
	if d == nil {
		return CannotAcceptControl
	}
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	done := make(chan Code, 1)
	select {
	case d.events <- dispatched{kind: wire.SCMControl, control: control, done: done}:
	case <-d.gone:
		return NotActive
	case <-limit.C:
		return RequestTimeout
	}
	select {
	case code := <-done:
		return code
	case <-d.gone:
		return OK // it ended in answer to the control
	case <-limit.C:
		return RequestTimeout
	}
}

// Boot starts the services that start by themselves, in their order; the delayed ones later, on a goroutine of its own.
func (m *Manager) Boot() {
	m.mu.Lock()
	now := bootOrder(m.configs(), false)
	later := bootOrder(m.configs(), true)
	m.mu.Unlock()
	for _, name := range now {
		_ = m.Start(name, nil) // the log has what goes wrong
	}
	time.AfterFunc(m.o.Delayed, func() {
		for _, name := range later {
			_ = m.Start(name, nil) // as above
		}
	})
}
