package platform

import (
	"context"
	"fmt"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"k8s.io/klog/v2"
)

// AsService calls run. If the service manager started this program, run becomes the service of that name and ends when the manager
// stops it. Call AsService before anything slow: the manager gives up after 30 s.
func AsService(ctx context.Context, name string, run func(context.Context) error) error {
	if managed, err := svc.IsWindowsService(); err != nil || !managed {
		klog.FromContext(ctx).Info("Not started by the service manager: running as a plain program", "error", err)
		return run(ctx)
	}
	h := &managedRun{ctx: ctx, run: run}
	if err := svc.Run(name, h); err != nil {
		return fmt.Errorf("answering the service manager: %w", err)
	}
	return h.err
}

// managedRun answers the service manager while the program is running.
type managedRun struct {
	ctx context.Context
	run func(context.Context) error
	err error
}

// Execute returns when the manager stops the service, or when the program ends.
func (m *managedRun) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- m.run(ctx) }()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}

	for {
		select {
		case m.err = <-done:
			status <- svc.Status{State: svc.StopPending}
			if m.err != nil {
				return true, 1
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				stop()
			}
		}
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
