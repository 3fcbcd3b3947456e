package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"porthole.dev/porthole/join/step"
)

// Manager runs programs: systemd, or whoever supervises a machine without it.
type Manager interface {
	// Name is systemd or none.
	Name() string
	// Running reports whether a unit runs and starts with the machine.
	Running(ctx context.Context, unit string) (bool, error)
	// Start makes a unit run with its present files, now and when the machine starts. One that runs is restarted.
	Start(ctx context.Context, unit string) error
	// Stop ends a unit and keeps it from starting with the machine. One that is not there is no error.
	Stop(ctx context.Context, unit string) error
}

// Start is the step of one running program.
type Start struct {
	Unit    string
	Health  string // URL that answers 200
	Manager Manager
	Facts   map[string]string // of the journal: with which configuration the program was started
	// Config returns the files and flags that the program reads when it starts.
	Config func() []byte
}

var _ step.Step = Start{}

type startValue struct {
	Unit    string `json:"unit"`
	Running bool   `json:"running"`
	Config  string `json:"config"`
}

// ID returns the step's name.
func (s Start) ID() string { return "start/" + s.Unit }

// Continues marks a step that the program finishes.
func (Start) Continues() {}

// Wanted returns a program that runs with the present configuration.
func (s Start) Wanted() any { return startValue{s.Unit, true, hash(s.Config())} }

func (s Start) fact() string { return "config of " + s.Unit }

// Observe reports whether it runs and is healthy, and with which configuration it was started.
func (s Start) Observe(ctx context.Context) (any, error) {
	running, err := s.Manager.Running(ctx, s.Unit)
	if err != nil {
		return nil, fmt.Errorf("asking %s for %s: %w", s.Manager.Name(), s.Unit, err)
	}
	healthy := running && Healthy(ctx, s.Health) == nil
	if !healthy && s.Facts[s.fact()] == "" {
		return nil, nil
	}
	return startValue{s.Unit, healthy, s.Facts[s.fact()]}, nil
}

// Apply starts the program and waits until it is healthy.
func (s Start) Apply(ctx context.Context) error {
	config := hash(s.Config())
	if s.Manager.Name() == "none" && s.Facts[s.fact()] != "" && s.Facts[s.fact()] != config &&
		Healthy(ctx, s.Health) == nil {
		return fmt.Errorf(
			"the configuration of %s has changed, and no service manager is here to restart it: end it, and join again when it runs", s.Unit)
	}
	if err := s.Manager.Start(ctx, s.Unit); err != nil {
		return fmt.Errorf("starting %s: %w", s.Unit, err)
	}
	if err := wait(ctx, func() (bool, error) {
		err := Healthy(ctx, s.Health)
		return err == nil, err
	}); err != nil {
		return fmt.Errorf("%s was started and is not healthy: %w", s.Unit, err)
	}
	s.Facts[s.fact()] = config
	return nil
}

// Undo stops the program.
func (s Start) Undo(ctx context.Context, _ []byte) error {
	if err := s.Manager.Stop(ctx, s.Unit); err != nil {
		return fmt.Errorf("stopping %s: %w", s.Unit, err)
	}
	delete(s.Facts, s.fact())
	return nil
}

var healthClient = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Healthy returns nil if a URL answers 200, else what it answers.
func Healthy(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := healthClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // of an error: what can be read is enough
	return errors.New(string(text))
}

// Unmanaged is a machine without a service manager that we know: whoever supervises it runs kubelet and
// porthole-routes as soon as their files are there, as with kubeadm.
type Unmanaged struct{}

// Name returns none.
func (Unmanaged) Name() string { return "none" }

// Running reports true: the health of the program tells.
func (Unmanaged) Running(context.Context, string) (bool, error) { return true, nil }

// Start does nothing.
func (Unmanaged) Start(context.Context, string) error { return nil }

// Stop does nothing: the supervisor ends what has no files any more.
func (Unmanaged) Stop(context.Context, string) error { return nil }
