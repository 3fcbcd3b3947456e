package windows

import (
	"fmt"
	"path/filepath"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/step"
)

// Steps returns the steps that make a machine with the node's certificate a node, in their order. m is the service
// manager of Windows.
func Steps(o Options, m *services.Manager) ([]step.Step, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	from, err := readSource(o.Source, o.Version)
	if err != nil {
		return nil, err
	}
	return steps(&o, from, m)
}

// UndoSteps returns the same steps for undoing them. Of the options it needs Install, Data and Root. No step can be
// applied.
func UndoSteps(o Options, m *services.Manager) ([]step.Step, error) { return steps(&o, source{}, m) }

func steps(o *Options, from source, m manager) ([]step.Step, error) {
	if o.RuntimeEndpoint == "" {
		o.RuntimeEndpoint = Pipe
	}
	containerd, err := m.Get(containerdService)
	if err != nil {
		return nil, err
	}
	specs, err := o.specs(from.id, containerd != nil)
	if err != nil {
		return nil, fmt.Errorf("describing the services: %w", err)
	}

	list := []step.Step{
		access{id: "access", dirs: o.closedFolders()},
		installed{id: "programs", dir: o.program(from.id, ""), from: from.programs, sums: from.sums,
			tree: filepath.Join(o.Install, "versions")},
		installed{id: "cni-programs", dir: o.plugins(), from: from.plugins, sums: from.sums, all: pluginNames},
		files{id: "kubelet-config", paths: o.kubeletPaths(), contents: o.kubeletFiles},
		files{id: "proxy-config", paths: o.proxyPaths(), contents: o.proxyFiles},
		files{id: "routes-config", paths: []string{o.BGPFile()}, contents: o.routesFiles},
		access{id: "access-files", files: o.closedFiles()},
		eventSource{platform.EventSource},
	}
	if o.wall == nil {
		o.wall = hostWall{}
	}
	if !o.NoFirewall {
		list = append(list, firewall{o.firewallRules(), o.wall})
	}
	for _, s := range specs {
		list = append(list, service{spec: s, manager: m})
	}
	list = append(list, shutdownOrder{"kubelet"})
	// kube-proxy ends by itself when its file changes
	read := map[string][]string{"kubelet": {o.kubelet("config.yaml")}, "porthole-routes": {o.BGPFile()}}
	for _, s := range specs {
		list = append(list, running{name: s.Name, files: read[s.Name], manager: m, started: platform.ProcessStarted})
	}
	return list, nil
}
