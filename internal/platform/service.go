package platform

import (
	"context"
	"sync"
	"sync/atomic"
)

// Service is a program that can be a service of Windows.
type Service struct {
	Name string
	Log  string // file that an event points to when the service fails; "" if its log goes nowhere
	// Run does the work until the context ends. It is called in a goroutine of its own. An error that it returns
	// before the context has ended is a failure of the service.
	Run func(context.Context) error
}

// EventSource is the name under which our services write to the Application log of Windows.
const EventSource = "Porthole"

// Identifiers of our events in the Windows event log.
const (
	EventStarted = 1
	EventStopped = 2
	EventFailed  = 10
)

// preShutdown is what a service does when Windows shuts down, before it is stopped.
var preShutdown struct {
	sync.Mutex
	hook func()
}

// asService is true once AsService runs this program as a service.
var asService atomic.Bool

// IsService reports whether this program runs as a service of Windows, through AsService.
func IsService() bool { return asService.Load() }

// OnPreShutdown sets what this program does, as a service, when Windows is about to shut down. hook is called on a
// goroutine of its own while the other services may still be running, and the service stops when it returns. nil
// removes the hook. Windows waits for the service's pre-shutdown time at most.
func OnPreShutdown(hook func()) {
	preShutdown.Lock()
	defer preShutdown.Unlock()
	preShutdown.hook = hook
}
