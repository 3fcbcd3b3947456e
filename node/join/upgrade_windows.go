package join

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/upgrade"
	steps "porthole.dev/porthole/join/windows"
)

// pluginPart is the part of the CNI plugins; its state is a version. The other parts are services; theirs are their
// configurations.
const pluginPart = "cni"

// windowsNode is a Windows node whose programs are exchanged.
type windowsNode struct {
	setup   *Setup
	options steps.Options
	version *steps.Version
	known   string // a version that is on the disk already; "": version is staged
	self    int    // process of the kubelet in which this runs; 0: none
}

// newVersion compares the programs beside this one with those that the node runs.
func newVersion(s *Setup) (*version, error) {
	n, err := newWindowsNode(s)
	if err != nil {
		return nil, err
	}
	v := &version{to: n.version.ID, machine: n}
	for _, spec := range n.version.Specs {
		have, err := n.version.ServiceNow(spec.Name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, upgrade.ErrRefused)
		}
		p := upgrade.Part{Name: spec.Name}
		if p.Old, err = json.Marshal(have); err == nil {
			p.New, err = json.Marshal(spec)
		}
		if err != nil {
			return nil, err
		}
		// All services are of one version; the last one says which.
		v.from, v.parts = steps.VersionOf(have), append(v.parts, p)
	}
	v.parts = append(v.parts, upgrade.Part{Name: pluginPart, Old: quoted(v.from), New: quoted(v.to)})
	return v, nil
}

// sourceFiles are the programs of an archive.
func sourceFiles() []string { return steps.SourceFiles() }

// quoted is a version as the state of a part; unquoted is its inverse.
func quoted(text string) json.RawMessage { return json.RawMessage(strconv.Quote(text)) }

// knownVersion is the node for going to a version whose programs are on the disk.
func knownVersion(s *Setup, id string, self int) (upgrade.Machine, error) {
	n, err := newWindowsNode(s)
	if err != nil {
		return nil, err
	}
	n.known, n.self = id, self
	return n, n.options.Complete(id)
}

// newWindowsNode makes no change; the version that it names may not be staged yet.
func newWindowsNode(s *Setup) (*windowsNode, error) {
	o, err := windowsOptions(s)
	if err != nil {
		return nil, err
	}
	m, err := services.Connect()
	if err != nil {
		return nil, err
	}
	v, err := steps.NewVersion(o, m)
	return &windowsNode{setup: s, options: o, version: v}, err
}

// Stage copies the programs.
func (n *windowsNode) Stage(ctx context.Context) error {
	if n.known != "" {
		return n.options.Complete(n.known)
	}
	return n.version.Stage(ctx)
}

// Switch exchanges a service or the plugins.
func (n *windowsNode) Switch(ctx context.Context, part string, state json.RawMessage) error {
	if part == pluginPart {
		id, err := unquoted(state)
		if err != nil {
			return err
		}
		return n.version.SwitchPlugins(ctx, id)
	}
	spec, err := steps.ParseSpec(state)
	if err != nil {
		return err
	}
	// The kubelet cannot stop its own service. It is configured, and starts as the other version.
	if n.self != 0 && part == "kubelet" {
		if err := n.version.Configure(spec); err != nil {
			return err
		}
		if folder := filepath.Dir(spec.Command[0]); !strings.EqualFold(folder, n.setup.Bundled) { // of this program
			return ErrRestart
		}
	}
	return n.version.SwitchService(ctx, spec)
}

func unquoted(state json.RawMessage) (text string, err error) {
	if err = json.Unmarshal(state, &text); err != nil {
		err = fmt.Errorf("reading a version: %w", err)
	}
	return text, err
}

// Healthy asks the service manager, and then the program.
func (n *windowsNode) Healthy(ctx context.Context, part string, state json.RawMessage) (instance string, err error) {
	if part == pluginPart {
		id, err := unquoted(state)
		if err != nil {
			return "", err
		}
		return "", n.version.PluginHealth(ctx, id)
	}
	spec, err := steps.ParseSpec(state)
	if err != nil {
		return "", err
	}
	pid, err := n.version.ServiceHealth(spec)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(uint64(pid), 10), install.Healthy(ctx, healthURLs[part])
}

// Ready asks the API server.
func (n *windowsNode) Ready(ctx context.Context) (string, error) { return nodeReady(ctx, n.setup) }

// Forget removes the folder of a version.
func (n *windowsNode) Forget(_ context.Context, id string) error { return n.options.Forget(id) }
