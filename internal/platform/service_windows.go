package platform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"k8s.io/klog/v2"
)

// StartedByServiceManager reports whether the parent of this process is Windows' service manager. False if that cannot be known;
// AsService finds out with certainty.
func StartedByServiceManager() bool {
	managed, err := svc.IsWindowsService()
	return err == nil && managed
}

// AsService makes this process the service. managed is false, and nothing was run, if the service manager did not start it; err is
// the reason then. Otherwise AsService returns nil when the service was told to stop, or did all it had to do: the manager counts
// either as no failure. A service that fails never returns: the process ends at once, without a word to the manager, which
// takes that for a crash and restarts it as its recovery actions say. For a service that reports how it ended those run only with
// SERVICE_CONFIG_FAILURE_ACTIONS_FLAG (`sc failureflag NAME 1`), which an installer may not have set.
//
// Call it before anything slow: the manager waits 30 s for an answer.
func AsService(s Service) (managed bool, err error) {
	h := &managedRun{Service: s}
	err = svc.Run(s.Name, h)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return false, err
	}
	if err != nil {
		return true, fmt.Errorf("answering the service manager: %w", err)
	}
	return true, nil
}

// managedRun answers the service manager while the program is running.
type managedRun struct{ Service }

// How often a service that stops says so, and how long the manager shall wait for the next word. Windows gives a service that says
// nothing 30 s after a request, and 5 to 20 s at shutdown.
const (
	stopPeriod = 2 * time.Second
	stopHint   = 20 * time.Second
)

// Execute returns when the manager stops the service, or when the program has done its work.
func (m *managedRun) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	asService.Store(true)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()

	current := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptPreShutdown}
	status <- current
	m.event(EventStarted, m.Name+" started")

	tick := time.NewTicker(stopPeriod)
	defer tick.Stop()
	stopping := func() {
		current = svc.Status{State: svc.StopPending, CheckPoint: current.CheckPoint + 1, WaitHint: uint32(stopHint.Milliseconds())}
		status <- current
	}
	for {
		select {
		case err := <-done:
			m.ended(err, current.State == svc.StopPending)
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- current
			case svc.Stop, svc.Shutdown:
				stopping()
				stop()
			case svc.PreShutdown:
				stopping()
				go func() { runPreShutdown(); stop() }()
			}
		case <-tick.C:
			if current.State == svc.StopPending {
				stopping()
			}
		}
	}
}

// ended tells the log how the program ended, and ends the process if that was a failure.
func (m *managedRun) ended(err error, stopping bool) {
	switch {
	case err == nil:
		m.event(EventStopped, m.Name+" stopped")
	case stopping:
		m.event(EventStopped, fmt.Sprintf("%s stopped, with an error on the way: %v", m.Name, err))
		klog.Background().Error(err, "Stopped, with an error on the way", "service", m.Name)
	default:
		klog.Background().Error(err, "The service ends with an error", "service", m.Name)
		where := ""
		if m.Log != "" {
			where = "\nIts log is " + m.Log
		}
		m.event(EventFailed, fmt.Sprintf("%s ended with an error: %v%s", m.Name, err, where))
		klog.Flush()
		os.Exit(1)
	}
}

// event writes to the Application log of Windows: what went wrong before a log file is open is nowhere else.
func (m *managedRun) event(id uint32, text string) {
	log, err := eventlog.Open(EventSource)
	if err == nil {
		defer log.Close()
		write := log.Info
		if id == EventFailed {
			write = log.Error
		}
		err = write(id, text)
	}
	if err != nil {
		klog.Background().Error(err, "Writing to the Windows event log", "event", text)
	}
}

// priorities are the names that upstream's kubelet takes, with the values of SetPriorityClass.
var priorities = map[string]uint32{
	"IDLE_PRIORITY_CLASS":         windows.IDLE_PRIORITY_CLASS,
	"BELOW_NORMAL_PRIORITY_CLASS": windows.BELOW_NORMAL_PRIORITY_CLASS,
	"NORMAL_PRIORITY_CLASS":       windows.NORMAL_PRIORITY_CLASS,
	"ABOVE_NORMAL_PRIORITY_CLASS": windows.ABOVE_NORMAL_PRIORITY_CLASS,
	"HIGH_PRIORITY_CLASS":         windows.HIGH_PRIORITY_CLASS,
	"REALTIME_PRIORITY_CLASS":     windows.REALTIME_PRIORITY_CLASS,
}

// SetPriority gives this process a priority class by name. It starts no other process, so there is no job to put them in.
func SetPriority(name string) error {
	class, ok := priorities[name]
	if !ok {
		return fmt.Errorf("unknown priority class %s, valid ones are available at https://docs.microsoft.com/en-us/windows/win32/procthread/scheduling-priorities", name)
	}
	if class == windows.NORMAL_PRIORITY_CLASS { // the default of every process
		return nil
	}
	if err := windows.SetPriorityClass(windows.CurrentProcess(), class); err != nil {
		return fmt.Errorf("setting the priority class %s: %w", name, err)
	}
	return nil
}

// runPreShutdown calls what OnPreShutdown set.
func runPreShutdown() {
	preShutdown.Lock()
	hook := preShutdown.hook
	preShutdown.Unlock()
	if hook != nil {
		hook()
	}
}
