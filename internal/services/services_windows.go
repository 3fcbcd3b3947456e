package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"
)

// Manager is the service manager of Windows.
type Manager struct{ m *mgr.Mgr }

// Connect connects to the service manager of this host. It needs the rights of an administrator.
func Connect() (*Manager, error) {
	m, err := mgr.Connect()
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return nil, fmt.Errorf("asking the service manager: %w: start this in a prompt with \"Run as administrator\"",
			err)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the service manager: %w", err)
	}
	return &Manager{m}, nil
}

// Close ends the connection.
func (m *Manager) Close() { m.m.Disconnect() }

var startNames = map[uint32]string{mgr.StartAutomatic: "automatic", mgr.StartManual: "manual",
	mgr.StartDisabled: "disabled"}

var stateNames = map[svc.State]string{svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping",
	svc.Running: "running",
	svc.Paused:  "paused", svc.PausePending: "pausing", svc.ContinuePending: "continuing"}

// Get returns a service, nil if there is none of that name.
func (m *Manager) Get(name string) (*Status, error) {
	s, err := m.m.OpenService(name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening service %s: %w", name, elevated(err))
	}
	defer s.Close()
	st, err := get(s)
	if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", name, err)
	}
	if st.Log = st.LogFile(); st.Log != "" {
		st.LastError = LastError(tail(st.Log))
	}
	return st, nil
}

// get reads everything that a Spec says of a service, so that Diff can compare the two, and its state.
func get(s *mgr.Service) (*Status, error) {
	c, err := s.Config()
	if err != nil {
		return nil, err
	}
	command, err := windows.DecomposeCommandLine(c.BinaryPathName)
	if err != nil {
		return nil, err
	}
	spec := Spec{Name: s.Name, DisplayName: c.DisplayName, Description: c.Description, Command: command,
		Dependencies: c.Dependencies,
		Start:        startNames[c.StartType], Account: c.ServiceStartName}
	if c.DelayedAutoStart {
		spec.Start = "delayed"
	}

	actions, err := s.RecoveryActions()
	if err != nil {
		return nil, err
	}
	for _, a := range actions {
		if a.Type == mgr.ServiceRestart {
			spec.Restart = append(spec.Restart, Duration(a.Delay))
		}
	}
	reset, err := s.ResetPeriod()
	if err != nil {
		return nil, err
	}
	spec.Reset = Duration(time.Duration(reset) * time.Second)
	if spec.OnError, err = s.RecoveryActionsOnNonCrashFailures(); err != nil {
		return nil, err
	}

	if spec.Environment, err = readEnvironment(s.Name); err != nil {
		return nil, err
	}
	q, err := s.Query()
	if err != nil {
		return nil, err
	}
	return &Status{Spec: spec, State: stateNames[q.State], PID: q.ProcessId, ExitCode: q.Win32ExitCode}, nil
}

// tail returns the end of a file, "" if it cannot be read.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const size = 64 << 10
	if st, err := f.Stat(); err == nil && st.Size() > size {
		_, _ = f.Seek(-size, io.SeekEnd) // if not: all of it
	}
	data, _ := io.ReadAll(f) // what can be read
	return string(data)
}

// Apply makes the service, or changes it, so that it is as wanted. A running one takes a new command line when it
// starts again.
func (m *Manager) Apply(wanted Spec) error {
	c := mgr.Config{ServiceType: windows.SERVICE_WIN32_OWN_PROCESS, StartType: mgr.StartAutomatic,
		ErrorControl: mgr.ErrorNormal,
		DisplayName:  wanted.DisplayName, Description: wanted.Description, Dependencies: wanted.Dependencies,
		ServiceStartName: wanted.Account,
		SidType:          windows.SERVICE_SID_TYPE_UNRESTRICTED, DelayedAutoStart: wanted.Start == "delayed"}
	s, err := m.settled(wanted, c)
	if s != nil {
		defer s.Close()
	}
	switch {
	case errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE):
		return fmt.Errorf(
			"service %s is being deleted: close what shows services (services.msc, Task Manager) and try again: %w",
			wanted.Name, err)
	case err != nil:
		return fmt.Errorf("configuring service %s: %w", wanted.Name, elevated(err))
	}

	var actions []mgr.RecoveryAction
	for _, d := range wanted.Restart {
		actions = append(actions, mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: time.Duration(d)})
	}
	if err := s.SetRecoveryActions(actions, uint32(time.Duration(wanted.Reset).Seconds())); err != nil {
		return fmt.Errorf("setting the recovery actions of service %s: %w", wanted.Name, err)
	}
	if err := s.SetRecoveryActionsOnNonCrashFailures(wanted.OnError); err != nil {
		return fmt.Errorf("setting the failure flag of service %s: %w", wanted.Name, err)
	}
	if err := setEnvironment(wanted.Name, wanted.Environment); err != nil {
		return fmt.Errorf("setting the environment of service %s: %w", wanted.Name, err)
	}
	return nil
}

// A service that was deleted is there until all have closed it, and its name is not free before (Microsoft,
// DeleteService).
const (
	deletedTime   = 2 * time.Second
	deletedPeriod = 100 * time.Millisecond
)

// settled creates or changes a service. It waits for a deleted one to be gone.
func (m *Manager) settled(wanted Spec, c mgr.Config) (s *mgr.Service, err error) {
	tick := time.NewTicker(deletedPeriod)
	defer tick.Stop()
	for deadline := time.Now().Add(deletedTime); ; <-tick.C {
		s, err = m.configured(wanted, c)
		if !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) || time.Now().After(deadline) {
			return s, err
		}
		if s != nil { // or it would never be gone
			s.Close()
			s = nil
		}
	}
}

// configured creates a service, or changes the one that is there. s is nil if there is none.
func (m *Manager) configured(wanted Spec, c mgr.Config) (s *mgr.Service, err error) {
	s, err = m.m.OpenService(wanted.Name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		s, err = m.m.CreateService(wanted.Name, wanted.Command[0], c, wanted.Command[1:]...)
		if !errors.Is(err, windows.ERROR_SERVICE_EXISTS) {
			return s, err
		}
		s, err = m.m.OpenService(wanted.Name) // somebody made it a moment ago
	}
	if err != nil {
		return nil, err
	}
	c.BinaryPathName = windows.ComposeCommandLine(wanted.Command)
	if err = s.UpdateConfig(c); err == nil && len(wanted.Dependencies) == 0 {
		err = clearDependencies(s)
	}
	return s, err
}

// elevated adds to an error of missing rights how to get them.
func elevated(err error) error {
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return fmt.Errorf(
			"%w: start this in a prompt with \"Run as administrator\"; if it was, a policy of the domain forbids it",
			err)
	}
	return err
}

// clearDependencies removes all dependencies of a service. UpdateConfig would keep them if it is given none.
func clearDependencies(s *mgr.Service) error {
	const same = windows.SERVICE_NO_CHANGE
	none := [2]uint16{}
	return windows.ChangeServiceConfig(s.Handle, same, same, same, nil, nil, nil, &none[0], nil, nil, nil)
}

// Delete stops a service and deletes it. It returns nil if there is none of that name.
func (m *Manager) Delete(ctx context.Context, name string) error {
	s, err := m.m.OpenService(name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening service %s: %w", name, err)
	}
	defer s.Close()
	if err := stop(ctx, s); err != nil {
		return err
	}
	if err := s.Delete(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
		return fmt.Errorf("deleting service %s: %w", name, err)
	}
	return nil
}

// Start starts a service and returns when it runs. It returns nil if it runs already.
func (m *Manager) Start(ctx context.Context, name string) error {
	s, err := m.m.OpenService(name)
	if err != nil {
		return fmt.Errorf("opening service %s: %w", name, err)
	}
	defer s.Close()
	err = s.Start()
	// a machine that does much else; Windows has ended the process
	if errors.Is(err, windows.ERROR_SERVICE_REQUEST_TIMEOUT) {
		err = s.Start()
	}
	if err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		return fmt.Errorf("starting service %s: %w", name, elevated(err))
	}
	return await(ctx, s, svc.Running)
}

// Stop stops a service and returns when it has stopped. It returns nil if it had stopped already.
func (m *Manager) Stop(ctx context.Context, name string) error {
	s, err := m.m.OpenService(name)
	if err != nil {
		return fmt.Errorf("opening service %s: %w", name, err)
	}
	defer s.Close()
	return stop(ctx, s)
}

// hangTime is how long a service may take to stop before its process is ended: as long as Windows gives it when it
// shuts down (WaitToKillServiceTimeout, 20 s by default).
const hangTime = 20 * time.Second

// stop stops a service and waits for the end of its process. The process of one that does not stop is ended.
func stop(ctx context.Context, s *mgr.Service) error {
	ended := processEnd(s)
	defer ended.close()
	_, err := s.Control(svc.Stop)
	switch {
	case errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE):
		return nil
	case errors.Is(err, windows.ERROR_SERVICE_REQUEST_TIMEOUT): // it does not take the control
		return end(ctx, s)
	case errors.Is(err, windows.ERROR_DEPENDENT_SERVICES_RUNNING):
		dependents, _ := s.ListDependentServices(svc.Active) // only for the text
		return fmt.Errorf("stopping service %s: stop %s first, which depend on it: %w", s.Name,
			strings.Join(dependents, ", "), err)
	case err != nil && !errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL): // it is stopping already
		return fmt.Errorf("stopping service %s: %w", s.Name, elevated(err))
	}

	patient, cancel := context.WithTimeout(ctx, hangTime)
	defer cancel()
	err = await(patient, s, svc.Stopped)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		return end(ctx, s)
	}
	if err == nil {
		ended.await()
	}
	return err
}

// running is the process of a service; 0 if there is none, or it cannot be watched.
type running windows.Handle

// processEnd returns the process of a service, whose end can then be awaited.
func processEnd(s *mgr.Service) running {
	q, err := s.Query()
	if err != nil || q.ProcessId == 0 {
		return 0
	}
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, q.ProcessId)
	if err != nil { // it has ended, or the caller may not
		return 0
	}
	return running(h)
}

// endTime is how long the process of a stopped service may take to end. A service reports that it has stopped before
// its process ends, which keeps the ports that it listens on until then: a program that starts at that moment finds
// them in use.
const endTime = 5 * time.Second

// await waits until the process has ended, for endTime at most: the next one then has to cope with its ports.
func (r running) await() {
	if r != 0 {
		_, _ = windows.WaitForSingleObject(windows.Handle(r), uint32(endTime.Milliseconds())) // see above
	}
}

func (r running) close() {
	if r != 0 {
		_ = windows.CloseHandle(windows.Handle(r)) // of this process
	}
}

// end ends the process of a service that does not stop. To Windows that is a failure of the service: its recovery
// actions are put away for that time, or they would start it again.
func end(ctx context.Context, s *mgr.Service) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ending service %s, which does not stop: %w", s.Name, err)
		}
	}()
	q, err := s.Query()
	if err != nil || q.State == svc.Stopped {
		return err
	}
	actions, err := s.RecoveryActions()
	if err != nil {
		return err
	}
	reset, err := s.ResetPeriod()
	if err != nil {
		return err
	}
	if len(actions) > 0 {
		if err := s.ResetRecoveryActions(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.SetRecoveryActions(actions, reset)) }()
	}

	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, q.ProcessId)
	if err != nil {
		return err
	}
	err = windows.TerminateProcess(h, uint32(windows.ERROR_PROCESS_ABORTED))
	if err := errors.Join(err, windows.CloseHandle(h)); err != nil {
		return err
	}
	return await(ctx, s, svc.Stopped)
}

// statePeriod is the time between two looks at a service that starts or stops. It is part of the time without the
// service in an upgrade.
const statePeriod = 25 * time.Millisecond

// await waits until the service is in the wanted state. It returns an error if ctx ends before.
func await(ctx context.Context, s *mgr.Service, wanted svc.State) error {
	tick := time.NewTicker(statePeriod)
	defer tick.Stop()
	for {
		q, err := s.Query()
		if err != nil {
			return fmt.Errorf("asking for service %s: %w", s.Name, err)
		}
		if q.State == wanted {
			return nil
		}
		if wanted == svc.Running && q.State == svc.Stopped {
			return fmt.Errorf(
				"service %s stopped while it started, with exit code %d: `porthole service status` shows its last error", s.Name, q.Win32ExitCode)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for service %s to be %s: it is %s: %w", s.Name, stateNames[wanted],
				stateNames[q.State], ctx.Err())
		case <-tick.C:
		}
	}
}

const sources = `SYSTEM\CurrentControlSet\Services\EventLog\Application\`

// HasEventSource reports whether a name is registered with the event log.
func HasEventSource(name string) (bool, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, sources+name, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for %s in the event log's sources: %w", name, err)
	}
	return true, k.Close()
}

// AddEventSource registers a name under which programs write to the Windows event log. Without it the Event Viewer
// adds to each entry that its description cannot be found. It returns nil if the name is registered already.
func AddEventSource(name string) error {
	if k, err := registry.OpenKey(registry.LOCAL_MACHINE, sources+name, registry.QUERY_VALUE); err == nil {
		return k.Close()
	}
	if err := eventlog.InstallAsEventCreate(name, eventlog.Error|eventlog.Warning|eventlog.Info); err != nil {
		return fmt.Errorf("registering %s with the event log: %w", name, err)
	}
	return nil
}

// RemoveEventSource is the reverse of AddEventSource. It returns nil if the name is not registered.
func RemoveEventSource(name string) error {
	if err := eventlog.Remove(name); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return fmt.Errorf("removing %s from the event log: %w", name, err)
	}
	return nil
}

// control is the registry key, and orderValue the value, with the order in which Windows announces a shutdown to
// services.
const control, orderValue = `SYSTEM\CurrentControlSet\Control`, "PreshutdownOrder"

// PrepareShutdown makes Windows wait at least for the given time for the service when it shuts down, and announce the
// shutdown to it before it does to the services that it depends on.
func PrepareShutdown(name string, least time.Duration) error {
	m, err := Connect()
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := m.m.OpenService(name)
	if err != nil {
		return fmt.Errorf("opening service %s: %w", name, err)
	}
	defer s.Close()
	if err := setPreshutdownTime(s, least); err != nil {
		return fmt.Errorf("setting the pre-shutdown time of service %s to %v: %w", name, least, err)
	}
	return OrderShutdown(name)
}

// OrderShutdown puts the service before those that it depends on, in the order in which Windows announces a shutdown.
// It returns nil for a service without dependencies, which needs no place.
func OrderShutdown(name string) error {
	have, want, err := orders(name)
	if err == nil && !slices.Equal(want, have) {
		err = writeOrder(want)
	}
	if err != nil {
		return fmt.Errorf("ordering service %s at shutdown: %w", name, err)
	}
	return nil
}

// ShutdownOrdered reports whether OrderShutdown would change nothing. A service that does not exist needs no place.
func ShutdownOrdered(name string) (bool, error) {
	have, want, err := orders(name)
	if err != nil {
		return false, fmt.Errorf("reading the order of services at shutdown: %w", err)
	}
	return slices.Equal(want, have), nil
}

// ForgetShutdown takes the service out of the order. Its dependencies stay in it: they may have been there before.
func ForgetShutdown(name string) error {
	have, err := readOrder()
	if err != nil {
		return fmt.Errorf("reading the order of services at shutdown: %w", err)
	}
	want := slices.DeleteFunc(slices.Clone(have), func(s string) bool { return strings.EqualFold(s, name) })
	if len(want) == len(have) {
		return nil
	}
	if err := writeOrder(want); err != nil {
		return fmt.Errorf("removing service %s from the order at shutdown: %w", name, err)
	}
	return nil
}

// orders returns the order of services at shutdown as it is, and with the service at its place.
func orders(name string) (have, want []string, err error) {
	if have, err = readOrder(); err != nil {
		return nil, nil, err
	}
	m, err := Connect()
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	st, err := m.Get(name)
	if err != nil || st == nil {
		return have, have, err
	}
	return have, shutdownOrder(have, name, st.Dependencies), nil
}

// setPreshutdownTime sets how long Windows waits for the service when it shuts down, unless that is longer already.
func setPreshutdownTime(s *mgr.Service, least time.Duration) error {
	var have, needed uint32
	if err := windows.QueryServiceConfig2(s.Handle, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO,
		(*byte)(unsafe.Pointer(&have)), 4, &needed); err != nil {
		return err
	}
	want := uint32(least.Milliseconds())
	if have >= want {
		return nil
	}
	return windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO,
		(*byte)(unsafe.Pointer(&want)))
}

// readOrder returns Windows' list of services that are told of a shutdown one after the other, before all others.
func readOrder() ([]string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, control, registry.QUERY_VALUE)
	if err != nil {
		return nil, err
	}
	defer key.Close()
	have, _, err := key.GetStringsValue(orderValue)
	if err != nil && !errors.Is(err, registry.ErrNotExist) {
		return nil, err
	}
	return have, nil
}

// writeOrder replaces that list.
func writeOrder(list []string) error {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, control, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer key.Close()
	return key.SetStringsValue(orderValue, list)
}
