package join

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/join/step"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/packaging/systemd"
)

// Folders of a Linux node are kubeadm's; node.json has its own.
const (
	stateFolder = "/var/lib/porthole-node"
	lockFile    = "/run/porthole-join.lock"
	unitFolder  = "/etc/systemd/system"
	cniBin      = "/opt/cni/bin"
	cniConf     = "/etc/cni/net.d"
	routesEnv   = "/etc/kubernetes/porthole-routes.env"
	routesBGP   = "/etc/kubernetes/porthole-bgp.yaml"
)

// packageUnits are where packages put their units.
var packageUnits = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}

// rootFolder takes what Windows needs; Linux has one root.
func rootFolder(string) string { return "/" }

// paths sets where kubeadm and the kubelet have their files on Linux.
func (s *Setup) paths() {
	s.Kubernetes = "/etc/kubernetes"
	s.Kubelet = "/var/lib/kubelet"
	s.State = stateFolder
}

// DefaultInstallDir is where programs go that no package installed.
const DefaultInstallDir = "/usr/lib/porthole"

// lock makes this the only join or leave of the machine until unlock is called, or the process ends.
func lock(string) (unlock func(), err error) {
	f, err := os.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	// The lock is the kernel's and ends with the process; the file and the number in it stay.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(lockFile) // only for the text
		f.Close()
		return nil, fmt.Errorf("another porthole join or leave runs (pid %s)", strings.TrimSpace(string(pid)))
	}
	if err := f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("locking: %w", err)
		}
	}
	return func() { f.Close() }, nil
}

// needs are what the certificate of a node must allow: verb, group, resource. porthole-routes lists the nodes.
// kube-proxy of a Linux node is kubeadm's, which has an account of its own.
func needs() [][3]string { return [][3]string{{"list", "", "nodes"}} }

// manager returns what runs programs on this machine.
func manager() install.Manager {
	if install.HasSystemd() {
		return install.Systemd{}
	}
	return install.Unmanaged{}
}

// systemSteps returns the steps of a Linux node between its certificate and its registration.
func systemSteps(s *Setup) ([]step.Step, error) {
	o, err := kubeletOptions(s)
	if err != nil {
		return nil, err
	}
	text, err := install.KubeletConfig(s.Settings.Kubelet, o)
	if err != nil {
		return nil, err
	}
	if err := checkKubeletConfig(text); err != nil {
		return nil, err
	}

	// The steps are in the order in which they are applied: programs, identity, configuration,
	// units, and what starts.
	var list []step.Step
	files := func(more ...install.File) []byte {
		var content []byte
		for _, f := range more {
			list = append(list, f)
			content = append(content, f.Content()...)
		}
		return content
	}
	program := programs(s, &list)
	identity := append(files(install.KubeconfigSteps(&s.Node)...), files(environmentSteps(s)...)...)
	kubelet := files(install.KubeletSteps(&s.Node, text, o)...)
	m := manager()
	if m.Name() == "systemd" && !packaged() {
		files(unitSteps(program)...)
	}
	// A program is started again when one of the files that it reads has changed.
	start := func(unit, health string, config []byte) {
		list = append(list, install.Start{Unit: unit, Health: health, Manager: m, Facts: s.Journal.Facts,
			Config: func() []byte { return config }})
	}
	if hasRoutes(s.Network) {
		cniSteps(s, &list)
		steps, err := routesSteps(s)
		if err != nil {
			return nil, err
		}
		routes := files(steps...)
		if s.Start {
			// Healthy it is when the node is in the cluster, which takes the kubelet. The condition Ready, which join
			// waits for at last, needs both.
			start("porthole-routes", "http://127.0.0.1:10261/livez", append(routes, identity...))
		}
	}
	if s.Start {
		start("kubelet", "http://127.0.0.1:10248/healthz", append(kubelet, identity...))
	}
	return list, nil
}

// kubeletOptions is what the kubelet's files depend on, from the user's choices.
func kubeletOptions(s *Setup) (install.KubeletOptions, error) {
	o := install.KubeletOptions{Runtime: runtimeEndpoint(s.CRISocket), Labels: s.Labels, Taints: s.Taints,
		Extra: s.KubeletArgs}
	if hasRoutes(s.Network) { // the DaemonSet of `porthole manifests` leaves such nodes out
		o.Labels = strings.TrimPrefix(o.Labels+",porthole.dev/routes=service", ",")
	}
	var err error
	o.Patches, err = readPatches(s.PatchesDir)
	return o, err
}

// checkKubeletConfig has the kubelet's own loader read the configuration before anything depends on it. The loader
// reads a file: one in memory.
func checkKubeletConfig(text []byte) error {
	fd, err := unix.MemfdCreate("config.yaml", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("checking the kubelet's configuration: %w", err)
	}
	f := os.NewFile(uintptr(fd), "config.yaml")
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("checking the kubelet's configuration: %w", err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, _, err := config.Load(config.Source{File: path}); err != nil {
		return refusedSettings(strings.ReplaceAll(err.Error(), path, "config.yaml"))
	}
	return nil
}

// packaged reports whether a package brought the units.
func packaged() bool {
	for _, dir := range packageUnits {
		if _, err := os.Stat(filepath.Join(dir, "porthole-routes.service")); err == nil {
			return true
		}
	}
	return false
}

// programs adds the steps that copy the programs, unless they are installed already, and returns the path of porthole.
func programs(s *Setup, list *[]step.Step) string {
	dir := s.InstallDir
	// A program that runs from the folder of installation, or a version below it, is installed
	// already.
	if s.Bundled == dir || strings.HasPrefix(s.Bundled, dir+"/") {
		return filepath.Join(s.Bundled, "porthole")
	}
	for _, name := range []string{"porthole", "porthole-routes"} {
		from := filepath.Join(s.Bundled, name)
		if _, err := os.Stat(from); err == nil {
			*list = append(*list, install.Program{Name: "program/" + name, From: from, To: filepath.Join(dir, name)})
		}
	}
	return filepath.Join(dir, "porthole")
}

// cniPlugins are those that the CNI configuration of porthole-routes names.
var cniPlugins = []string{"bridge", "host-local", "loopback", "portmap", ovnPlugin}

// ovnPlugin is the plugin of the mode ovn, which uses no other.
const ovnPlugin = "ovn_cni"

// cniSteps add the CNI plugins of the pod network that are missing. Those that are there stay.
// A plugin that neither the archive nor the machine has is the runtime's to report.
func cniSteps(s *Setup, list *[]step.Step) {
	for _, name := range cniPlugins {
		if name == ovnPlugin && s.Network != routes.OVN {
			continue
		}
		for _, from := range []string{filepath.Join(s.Bundled, "bundle", "cni", name), filepath.Join(s.Bundled, name)} {
			if _, err := os.Stat(from); err == nil {
				*list = append(*list, install.Program{Name: "cni/" + name, From: from, To: filepath.Join(cniBin, name),
					OnlyNew: true, ForPods: true})
				break
			}
		}
	}
}

// routesSteps are the file that the unit of porthole-routes reads, and what that names.
func routesSteps(s *Setup) (list []install.File, err error) {
	// Arguments of the user come last, and win.
	args := []string{"--hostname-override=" + s.Name, "--cluster-cidr=" + s.Pods, "--service-cidr=" + s.Services,
		"--cni-conf-dir=" + cniConf, "--state-dir=" + filepath.Join(s.State, "routes")}
	if s.NodeIP != "" {
		args = append(args, "--node-ip="+s.NodeIP)
	}
	if s.Network != routes.DefaultMode {
		args = append(args, "--mode="+s.Network)
	}

	peers, err := s.bgpConfig(routesBGP)
	if err != nil {
		return nil, err
	}
	if peers != nil {
		args = append(args, "--bgp-config="+routesBGP)
		list = append(list, install.File{Name: "routes-bgp", Path: routesBGP, Perm: 0o600,
			Content: func() []byte { return peers }})
	}
	args = append(args, s.RoutesArgs...)
	if err := s.checkRoutes(append([]string{"--kubeconfig=" + s.Kubeconfig()}, args...)); err != nil {
		return nil, err
	}
	content := fmt.Appendf(nil, "PORTHOLE_ROUTES_ARGS=%q\n", strings.Join(args, " "))
	return append(list, install.File{Name: "routes-config", Path: routesEnv, Perm: 0o644,
		Content: func() []byte { return content }}), nil
}

// environmentSteps is the file with the variables of --env; there is none without them.
func environmentSteps(s *Setup) []install.File {
	content := install.EnvironmentFile(s.Environment)
	if len(content) == 0 {
		return nil
	}
	return []install.File{{Name: "environment", Path: systemd.Environment, Perm: 0o600,
		Content: func() []byte { return content }}}
}

// unitSteps are the units for a program at that path. Packages of Debian and of RPM systems have
// different folders of defaults.
func unitSteps(program string) (list []install.File) {
	defaults := systemd.DefaultsDebian
	if st, err := os.Stat(systemd.DefaultsRPM); err == nil && st.IsDir() {
		defaults = systemd.DefaultsRPM
	}
	units := systemd.Units(program, defaults)
	for _, name := range []string{systemd.Kubelet, systemd.DropIn, systemd.Routes} {
		list = append(list, install.File{Name: "unit/" + name, Path: filepath.Join(unitFolder, name), Perm: 0o644,
			Content: func() []byte { return units[name] }})
	}
	return list
}

// runtimeEndpoint returns the socket of the container runtime: the one that was given, or the first that is there, in
// kubeadm's order.
// Without any socket it is containerd's, which the check of the runtime then finds missing.
func runtimeEndpoint(given string) string {
	if given != "" {
		if strings.HasPrefix(given, "/") {
			return "unix://" + given
		}
		return given
	}
	for _, path := range []string{"/var/run/containerd/containerd.sock", "/var/run/crio/crio.sock",
		"/var/run/cri-dockerd.sock"} {
		if _, err := os.Stat(path); err == nil {
			return "unix://" + path
		}
	}
	return "unix:///var/run/containerd/containerd.sock"
}

// linuxSettings notes what kubelet-config says about the machine.
func linuxSettings(f *preflight.Facts, kubelet string) {
	f.Linux.FailSwapOn, f.Linux.FailV1 = failsOn(kubelet)
}
