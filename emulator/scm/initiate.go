package scm

import (
	"time"
)

// maxDelay is the longest delay of a shutdown, MAX_SHUTDOWN_TIMEOUT of winreg.h: ten years.
const maxDelay = 10 * 365 * 24 * time.Hour

// restarts has the host of a manager restarted.
type restarts struct{ m *Manager }

// initiate has the host restart after a delay, as InitiateSystemShutdownEx has. Until then abort can take it back. It
// returns NotSupported if the host cannot be restarted.
func (r restarts) initiate(after time.Duration, comment string) Code {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.o.Restart == nil:
		return NotSupported
	case m.down:
		return ShutdownInProgress
	case m.restart != nil:
		return ShutdownScheduled
	case after > maxDelay:
		return InvalidParameter
	}

	m.events.add(Event{Log: "System", Source: "User32", ID: 1074, Level: "Information",
		Text: "A program has initiated the restart of the computer. Comment: " + comment})
	m.restart = time.AfterFunc(after, r.now)
	return OK
}

// now has the host restarted. If that cannot begin, another shutdown can be initiated.
func (r restarts) now() {
	m := r.m
	err := m.o.Restart()
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restart = nil
	m.events.event(1073, "Warning", "The attempt to restart the computer failed: %v", err)
}

// abort takes a shutdown back whose time has not come.
func (r restarts) abort() Code {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.restart == nil || !m.restart.Stop() {
		return NoShutdown
	}
	m.restart = nil
	m.events.add(Event{Log: "System", Source: "User32", ID: 1075, Level: "Information",
		Text: "The last shutdown attempt was aborted."})
	return OK
}
