package join

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/join/step"
	steps "porthole.dev/porthole/join/windows"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/node/routes"
)

// DefaultInstallDir is where the programs go.
const DefaultInstallDir = `C:\Program Files\Porthole`

// dataFolder is where node.json, the logs and what routes keeps are.
const dataFolder = `C:\ProgramData\Porthole`

// rootFolder is C:\ unless a test or the user says otherwise.
func rootFolder(given string) string { return cmp.Or(given, `C:\`) }

// paths sets where kubeadm has its files, on the drive of root.
func (s *Setup) paths() {
	root := rootFolder(s.Root)
	s.Kubernetes = filepath.Join(root, "etc", "kubernetes")
	s.Kubelet = filepath.Join(root, "var", "lib", "kubelet")
	s.State = dataFolder
}

// lock makes this the only join or leave of the machine until unlock is called, or the process ends.
func lock(string) (unlock func(), err error) {
	// The name is Global so that sessions of all users share it.
	name, err := windows.UTF16PtrFromString(`Global\porthole-join`)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateMutex(nil, false, name)
	switch {
	case errors.Is(err, windows.ERROR_ALREADY_EXISTS):
		// CreateMutex gives a handle of the mutex that exists as well; it is closed.
		return nil, errors.Join(errors.New("another porthole join or leave runs: wait for its end"),
			windows.CloseHandle(h))
	case err != nil:
		return nil, fmt.Errorf("locking: %w", err)
	}
	return func() { _ = windows.CloseHandle(h) }, nil
}

// needs are what the certificate of a node must allow: verb, group, resource. kube-proxy and porthole-routes use it.
func needs() [][3]string {
	return [][3]string{{"list", "", "nodes"}, {"list", "", "services"}, {"list", "discovery.k8s.io", "endpointslices"}}
}

// systemSteps returns the steps of a Windows node between its certificate and its registration.
func systemSteps(s *Setup) ([]step.Step, error) {
	o, err := windowsOptions(s)
	if err != nil {
		return nil, err
	}
	text, err := o.KubeletYAML()
	if err != nil {
		return nil, err
	}
	if err := checkKubeletConfig(text); err != nil {
		return nil, err
	}

	m, err := services.Connect()
	if err != nil {
		return nil, err
	}
	more, err := steps.Steps(o, m)
	if err != nil {
		return nil, err
	}
	var list []step.Step
	for _, f := range install.KubeconfigSteps(&s.Node) {
		list = append(list, f)
	}
	return append(list, more...), nil
}

// windowsOptions are what the steps of a Windows node depend on.
func windowsOptions(s *Setup) (steps.Options, error) {
	// "devel" stands for a version that names itself by its contents.
	o := steps.Options{Node: s.Name, Source: s.Bundled, Install: s.InstallDir, Data: s.State,
		Root: rootFolder(s.Root), Version: "devel",
		PodCIDR: s.Pods, ServiceCIDR: s.Services, RuntimeEndpoint: runtimeEndpoint(s.CRISocket),
		Labels: s.Labels, Taints: s.Taints,
		KubeletArgs: s.KubeletArgs, Environment: s.Environment, Mode: s.Network, Verbosity: 2,
		FirewallPorts: s.FirewallPorts, NoFirewall: s.NoFirewall,
		RoutesArgs: s.RoutesArgs, NoProxy: s.Network == routes.OVN}
	if !hasRoutes(s.Network) {
		return o, fmt.Errorf("--network %s: a Windows node needs porthole-routes, which makes its HNS network: %s",
			s.Network, strings.Join(routes.Modes(), ", "))
	}

	if s.Settings != nil {
		o.KubeletConfig = []byte(s.Settings.Kubelet)
	}
	var err error
	if o.Patches, err = readPatches(s.PatchesDir); err != nil {
		return o, err
	}
	if o.NodeIP, err = nodeIP(s); err != nil {
		return o, err
	}
	if o.BGPConfig, err = s.bgpConfig(o.BGPFile()); err != nil {
		return o, err
	}
	return o, s.checkRoutes(o.RoutesFlags())
}

// nodeIP returns the address of the node: the one that was given, or that of the chosen adapter.
// Without --nic it is the first adapter with a default route.
func nodeIP(s *Setup) (string, error) {
	if s.NodeIP != "" {
		return s.NodeIP, nil
	}
	list, err := defaultAdapters()
	if err != nil {
		return "", err
	}
	for _, a := range list {
		if s.NIC == "" || strings.EqualFold(a.Name, s.NIC) {
			return a.Address, nil
		}
	}
	return "", errors.New("no adapter has a default route: name the node's address with --node-ip")
}

// defaultAdapters returns the network cards with a default route of IPv4, with their address.
func defaultAdapters() (list []preflight.Adapter, err error) {
	all, err := platform.Uplinks()
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		if u.Default && u.Addr.Is4() && !u.Endpoint {
			// An adapter that a virtual switch has taken over has the card's name in parentheses.
			name := strings.TrimSuffix(strings.TrimPrefix(u.Interface, "vEthernet ("), ")")
			list = append(list, preflight.Adapter{Name: name, Address: u.Addr.String()})
		}
	}
	return list, nil
}

// checkKubeletConfig has the kubelet's own loader read the configuration before anything depends on it.
func checkKubeletConfig(text []byte) (err error) {
	f, err := os.CreateTemp("", "kubelet-config")
	// The loader reads files only; this one is removed again.
	if err != nil {
		return fmt.Errorf("checking the kubelet's configuration: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("checking the kubelet's configuration: %w", err)
	}
	if _, _, err := config.Load(config.Source{File: f.Name(), Windows: true}); err != nil {
		return refusedSettings(strings.ReplaceAll(err.Error(), f.Name(), "config.yaml"))
	}
	return nil
}

// runtimeEndpoint returns the pipe of the container runtime.
func runtimeEndpoint(given string) string { return cmp.Or(given, steps.Pipe) }

// linuxSettings does nothing: the settings are of Linux.
func linuxSettings(*preflight.Facts, string) {}
