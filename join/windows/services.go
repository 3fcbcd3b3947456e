package windows

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"porthole.dev/porthole/internal/services"
)

// manager is the service manager of Windows; *services.Manager implements it.
type manager interface {
	Get(name string) (*services.Status, error)
	Apply(services.Spec) error
	Delete(ctx context.Context, name string) error
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
}

// service is a step that keeps the configuration of one service.
type service struct {
	spec    services.Spec
	manager manager
}

// ID names the step.
func (s service) ID() string { return "service/" + s.spec.Name }

// Wanted returns the service's configuration.
func (s service) Wanted() any { return plain(s.spec) }

// Observe returns the configuration that the service manager has. A service of that name with another program than
// ours is an error.
func (s service) Observe(context.Context) (any, error) {
	have, err := s.manager.Get(s.spec.Name)
	if err != nil || have == nil {
		return nil, err
	}
	if err := services.CheckOwner(have.Spec); err != nil {
		return nil, err
	}
	return plain(have.Spec), nil
}

// plain returns the configuration with empty lists in place of missing ones, so that the two are equal.
func plain(s services.Spec) services.Spec {
	s.Dependencies, s.Environment = append([]string{}, s.Dependencies...), append([]string{}, s.Environment...)
	return s
}

// stopLimit is how long a service may take to stop. The kubelet waits for its pods when the machine shuts down only.
const stopLimit = time.Minute

// Apply makes or changes the service. One that runs with another program, other arguments or another environment is
// stopped; the step running starts it again.
func (s service) Apply(ctx context.Context) error {
	have, err := s.manager.Get(s.spec.Name)
	if err != nil {
		return err
	}
	if have != nil && (!slices.Equal(have.Command, s.spec.Command) ||
		!slices.Equal(have.Environment, s.spec.Environment)) {
		if err := stop(ctx, s.manager, s.spec.Name); err != nil {
			return err
		}
	}
	return s.manager.Apply(s.spec)
}

// Undo stops and deletes the service.
func (s service) Undo(ctx context.Context, _ []byte) error {
	have, err := s.manager.Get(s.spec.Name)
	if err != nil || have == nil {
		return err
	}
	if err := services.CheckOwner(have.Spec); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return s.manager.Delete(ctx, s.spec.Name)
}

func stop(ctx context.Context, m manager, name string) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return m.Stop(ctx, name)
}

// startLimit is how long a service may take to say that it runs. Windows gives it 30 s.
const startLimit = time.Minute

// running is a step that starts one service, and restarts it if a file that it read at its start is newer than its
// process.
type running struct {
	name    string
	files   []string // that the service reads at its start only
	manager manager
	// started returns when a process started.
	started func(pid uint32) (time.Time, error)
}

// State of a service that runs, as services.Status has it, and of one that runs with files that were changed since.
const (
	stateRunning = "running"
	stateStale   = "running with an earlier configuration"
)

// ID names the step.
func (s running) ID() string { return "running/" + s.name }

// Continues marks a step that the service finishes.
func (running) Continues() {}

// Wanted returns the state of a service that runs.
func (s running) Wanted() any { return stateRunning }

// Observe returns the state of the service; nil if there is none.
func (s running) Observe(context.Context) (any, error) {
	have, err := s.manager.Get(s.name)
	if err != nil || have == nil {
		return nil, err
	}
	stale, err := s.stale(have)
	if stale {
		return stateStale, err
	}
	return have.State, err
}

// stale reports whether the service runs, and a file is newer than its process.
func (s running) stale(have *services.Status) (bool, error) {
	if have.State != stateRunning || len(s.files) == 0 {
		return false, nil
	}
	since, err := s.started(have.PID)
	if err != nil {
		return false, fmt.Errorf("finding out since when service %s runs: %w", s.name, err)
	}
	for _, path := range s.files {
		if st, err := os.Stat(path); err == nil && st.ModTime().After(since) {
			return true, nil
		}
	}
	return false, nil
}

// Apply starts the service.
func (s running) Apply(ctx context.Context) error {
	have, err := s.manager.Get(s.name)
	if err != nil {
		return err
	}
	if have != nil && have.State == stateRunning {
		if err := stop(ctx, s.manager, s.name); err != nil {
			return err
		}
	}

	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.manager.Start(ctx, s.name); err != nil {
		if have, again := s.manager.Get(s.name); again == nil && have != nil && have.LastError != "" {
			return fmt.Errorf("%w\nthe last error in %s: %s", err, have.Log, have.LastError)
		}
		return err
	}
	return nil
}

// Undo stops the service. The step of its configuration removes it.
func (s running) Undo(ctx context.Context, _ []byte) error {
	have, err := s.manager.Get(s.name)
	if err != nil || have == nil || have.State == "stopped" {
		return err
	}
	return stop(ctx, s.manager, s.name)
}

// specs returns the configuration of the services in the order in which they start.
func (o *Options) specs(id string, containerd bool) ([]services.Spec, error) {
	var out []services.Spec
	for _, p := range services.Programs {
		if p.Command == "kube-proxy" && o.NoProxy {
			continue
		}

		options := services.Options{LogDir: o.logs(), Environment: o.Environment}
		switch p.Command {
		case "routes":
			options.Program = o.program(id, portholeExe)
			options.Args = o.RoutesFlags()
		case "kube-proxy":
			options.Program = o.program(id, proxyExe)
			options.Args = o.proxyArgs()
		case "kubelet":
			options.Program = o.program(id, kubeletExe)
			options.Args = o.kubeletArgs()
			if containerd {
				options.DependsOn = []string{containerdService}
			}
		default:
			return nil, fmt.Errorf("no flags are known for the service %s", p.Name)
		}
		out = append(out, p.Wanted(options))
	}
	return out, nil
}

const containerdService = "containerd"

// eventSource is a step that registers the name under which services write to the event log.
type eventSource struct{ name string }

// ID names the step.
func (s eventSource) ID() string { return "event-source" }

// Wanted returns the name.
func (s eventSource) Wanted() any { return s.name }

// Observe returns the name if it is registered.
func (s eventSource) Observe(context.Context) (any, error) {
	has, err := services.HasEventSource(s.name)
	if err != nil || !has {
		return nil, err
	}
	return s.name, nil
}

// Apply registers the name.
func (s eventSource) Apply(context.Context) error { return services.AddEventSource(s.name) }

// Undo removes the name unless it was there before.
func (s eventSource) Undo(_ context.Context, before []byte) error {
	var had string
	if err := json.Unmarshal(before, &had); err == nil && strings.EqualFold(had, s.name) {
		return nil
	}
	return services.RemoveEventSource(s.name)
}

// shutdownOrder is a step that makes Windows tell the kubelet of a shutdown before it tells containerd.
type shutdownOrder struct{ name string }

// ID names the step.
func (s shutdownOrder) ID() string { return "preshutdown-order" }

// Wanted returns the name of the service, which stands in the list before those that it depends on.
func (s shutdownOrder) Wanted() any { return s.name }

// Observe returns the name if it stands there.
func (s shutdownOrder) Observe(context.Context) (any, error) {
	ordered, err := services.ShutdownOrdered(s.name)
	if err != nil || !ordered {
		return nil, err
	}
	return s.name, nil
}

// Apply puts the name into the list.
func (s shutdownOrder) Apply(context.Context) error { return services.OrderShutdown(s.name) }

// Undo takes the name out of the list. The kubelet puts it there at its start too, so it may be there although this
// step made nothing.
func (s shutdownOrder) Undo(context.Context, []byte) error { return services.ForgetShutdown(s.name) }
