package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/step"
)

// Version is the programs of one version of a node, in a folder of its own, and what the services are when they run
// them. It is what `porthole upgrade` exchanges.
type Version struct {
	ID       string // name of the folder
	Specs    []services.Spec
	options  *Options
	programs installed
	manager  manager
}

// NewVersion returns the version whose programs are in o.Source. Of the options it needs all but KubeletConfig.
func NewVersion(o Options, m *services.Manager) (*Version, error) {
	from, err := readSource(o.Source, o.Version)
	if err != nil {
		return nil, err
	}
	return newVersion(&o, from, m)
}

func newVersion(o *Options, from source, m manager) (*Version, error) {
	if o.RuntimeEndpoint == "" {
		o.RuntimeEndpoint = Pipe
	}
	containerd, err := m.Get(containerdService)
	if err != nil {
		return nil, err
	}
	v := &Version{ID: from.id, options: o, manager: m,
		programs: installed{id: "programs", dir: o.program(from.id, ""), from: from.programs, sums: from.sums}}
	v.Specs, err = o.specs(from.id, containerd != nil)
	return v, err
}

// Stage copies the programs to the version's folder and reads them again. What is there already stays.
func (v *Version) Stage(ctx context.Context) error {
	if err := v.programs.Apply(ctx); err != nil {
		return err
	}
	op, err := step.Compare(ctx, v.programs)
	if err == nil && op.Action != step.None {
		err = fmt.Errorf("%w: %s", step.ErrNotSettled, op)
	}
	return err
}

// Folder is the folder of the programs of a version.
func (o *Options) Folder(id string) string { return o.program(id, "") }

// ServiceNow returns what the service manager has of a service of ours. It returns an error if there is none.
func (v *Version) ServiceNow(name string) (services.Spec, error) {
	have, err := v.manager.Get(name)
	if err != nil {
		return services.Spec{}, err
	}
	if have == nil {
		return services.Spec{}, fmt.Errorf("there is no service %s: porthole join", name)
	}
	return have.Spec, services.CheckOwner(have.Spec)
}

// VersionOf returns the version that a service runs, by the folder of its program.
func VersionOf(s services.Spec) string { return filepath.Base(filepath.Dir(s.Command[0])) }

// SwitchService makes a service what spec says and starts it. One that runs so already is left alone.
func (v *Version) SwitchService(ctx context.Context, spec services.Spec) error {
	have, err := v.manager.Get(spec.Name)
	if err != nil {
		return err
	}
	if have != nil && have.State == stateRunning && slices.Equal(have.Command, spec.Command) {
		return nil
	}
	if have != nil {
		if err := stop(ctx, v.manager, spec.Name); err != nil {
			return err
		}
	}

	if err := v.manager.Apply(spec); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return v.manager.Start(ctx, spec.Name)
}

// Configure makes a service what spec says, and neither stops nor starts it.
func (v *Version) Configure(spec services.Spec) error { return v.manager.Apply(spec) }

// ServiceHealth returns the process of a service that runs as spec says, and what its log says if it does not run.
func (v *Version) ServiceHealth(spec services.Spec) (pid uint32, err error) {
	have, err := v.manager.Get(spec.Name)
	switch {
	case err != nil:
		return 0, err
	case have == nil:
		return 0, errors.New("there is no such service")
	case !slices.Equal(have.Command, spec.Command):
		return 0, fmt.Errorf("it runs %s", VersionOf(have.Spec))
	case have.State != stateRunning && have.LastError != "":
		return 0, fmt.Errorf("it is %s with exit code %d; the last error in %s: %s", have.State, have.ExitCode,
			have.Log, have.LastError)
	case have.State != stateRunning:
		return 0, fmt.Errorf("it is %s with exit code %d", have.State, have.ExitCode)
	}
	return have.PID, nil
}

// plugins is the step that keeps the CNI plugins of a version in the folder of the runtime. There is none if the
// version has no plugins.
func (v *Version) plugins(id string) (installed, error) {
	s := installed{id: "cni-programs", dir: v.options.plugins(), from: map[string]string{}, sums: map[string]string{}}
	for _, name := range pluginNames {
		path := v.options.program(id, filepath.Join("cni", name))
		sum, err := sumOfFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return s, err
		}
		s.from[name], s.sums[path] = path, sum
	}
	return s, nil
}

// SwitchPlugins makes the CNI plugins those of a version. One that runs goes on with the old file.
func (v *Version) SwitchPlugins(ctx context.Context, id string) error {
	s, err := v.plugins(id)
	if err != nil {
		return err
	}
	return s.Apply(ctx)
}

// PluginHealth returns nil if the CNI plugins are those of a version.
func (v *Version) PluginHealth(ctx context.Context, id string) error {
	s, err := v.plugins(id)
	if err != nil || len(s.from) == 0 {
		return err
	}
	op, err := step.Compare(ctx, s)
	if err == nil && op.Action != step.None {
		err = fmt.Errorf("the plugins are not those of %s", id)
	}
	return err
}

// Complete returns nil if the folder of a version has the programs of the services.
func (o *Options) Complete(id string) error {
	for _, name := range []string{portholeExe, kubeletExe, proxyExe} {
		if _, err := os.Stat(o.program(id, name)); err != nil {
			return fmt.Errorf("version %s is not complete: %w", id, err)
		}
	}
	return nil
}

// Forget removes the folder of a version.
func (o *Options) Forget(id string) error {
	if id == "" || id != filepath.Base(id) {
		return fmt.Errorf("%q is no version", id)
	}
	return removePrograms(o.program(id, ""))
}

// ParseSpec reads a service's configuration that was kept as JSON.
func ParseSpec(text json.RawMessage) (s services.Spec, err error) {
	if err = json.Unmarshal(text, &s); err == nil && (s.Name == "" || len(s.Command) == 0) {
		err = errors.New("it has no command")
	}
	if err != nil {
		err = fmt.Errorf("reading a service's configuration: %w", err)
	}
	return s, err
}
