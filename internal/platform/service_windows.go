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

// StartedByServiceManager reports whether the parent of this process is Windows' service manager. It returns false if
// that cannot be found; AsService finds out with certainty.
func StartedByServiceManager() bool {
	managed, err := svc.IsWindowsService()
	return err == nil && managed
}

// AsService runs s as the service that this process is. If the service manager did not start the process, it runs
// nothing and returns false with the reason. Otherwise it returns true and nil when the service was told to stop or
// has done its work.
//
// If the service fails, AsService does not return: the process ends at once, without reporting to the manager that it
// stopped. The manager counts that as a crash and carries out the recovery actions. After a service that reports an
// error it would do so only with SERVICE_CONFIG_FAILURE_ACTIONS_FLAG (`sc failureflag NAME 1`), which an installer may
// not have set.
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

// Times of a service that stops. The manager gives up on one that reports nothing for 30 s after a request, or 5 to 20
// s at shutdown.
const (
	stopPeriod = 2 * time.Second  // how often it reports that it is stopping
	stopHint   = 20 * time.Second // how long it asks the manager to wait for the next report
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
		current = svc.Status{State: svc.StopPending, CheckPoint: current.CheckPoint + 1,
			WaitHint: uint32(stopHint.Milliseconds())}
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

// ended logs how the program ended. If that was a failure, it ends the process. stopping reports whether the manager
// had asked the service to stop; an error after that is no failure.
func (m *managedRun) ended(err error, stopping bool) {
	switch {
	case err == nil:
		m.event(EventStopped, m.Name+" stopped")
	case stopping:
		m.event(EventStopped, fmt.Sprintf("%s stopped. An error occurred while it stopped: %v", m.Name, err))
		klog.Background().Error(err, "An error occurred while the service stopped", "service", m.Name)
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

// event writes to the Application log of Windows. An error that occurs before a log file is open is recorded only
// there.
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
		klog.Background().Error(err, "Writing to the Windows event log failed", "event", text)
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

// SetPriority gives this process a priority class by name. It starts no other process, so there is no job to put them
// in.
func SetPriority(name string) error {
	class, ok := priorities[name]
	if !ok {
		return fmt.Errorf(
			"unknown priority class %s, valid ones are available at https://docs.microsoft.com/en-us/windows/win32/procthread/scheduling-priorities", name)
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
