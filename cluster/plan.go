package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/platform"
)

// Processes is the whole cluster as a list of programs; a pure function of layout, configuration and where Wine is.
// The error is for a configuration whose ranges of addresses are not valid.
func Processes(l Layout, c Config, tools wine.Tools) ([]supervise.Process, error) {
	ranges, err := c.ranges()
	if err != nil {
		return nil, err
	}
	p := planner{l: l, c: c, tools: tools, ranges: ranges}
	p.cluster()
	if c.network().router != nil {
		c.network().router(&p)
	}
	for _, n := range c.Nodes() {
		if n.Windows {
			p.windowsNode(n)
		} else {
			p.linuxNode(n)
		}
		if c.network().node != nil {
			c.network().node(&p, n)
		}
	}
	return p.list, nil
}

type planner struct {
	l      Layout
	c      Config
	tools  wine.Tools
	ranges ranges
	list   []supervise.Process
}

func (p *planner) add(proc supervise.Process) { p.list = append(p.list, proc) }

func (p *planner) netns(node string) string { return platform.NetnsPath(p.c.lab().Netns(node)) }

// apiReady holds once the API server takes connections.
func (p *planner) apiReady() supervise.Condition {
	return supervise.Condition{TCP: address(11).String() + ":6443", Netns: p.netns("lin01")}
}

// cluster adds the processes of which a cluster has one: the registry, the control plane, metrics-server, and the
// relay. The relay runs in the machine's own network namespace, where kubectl is, and connects into those of the
// others.
func (p *planner) cluster() {
	tor := platform.NetnsPath(p.c.lab().RouterNetns())
	p.add(supervise.Process{
		Name: "registry", Path: p.l.Bundled("registry"), Netns: tor, Log: p.l.Log("registry"),
		Args: []string{"serve", "--listen", registryAddress(), "--dir", p.l.Images(), "--push-login",
			p.l.RegistryLogin()},
	})
	p.add(supervise.Process{
		Name: "controlplane", Node: "lin01", Path: p.l.Bundled("kube"), Netns: p.netns("lin01"),
		Log:  p.l.Log("controlplane"),
		Args: []string{"controlplane", "--config", filepath.Join(p.l.ControlPlane(), "config.json")},
	})
	p.add(metricsServer(p))
	p.add(supervise.Process{
		Name: "relay", Path: p.l.Porthole(), Log: p.l.Log("relay"),
		Args: []string{"relay",
			fmt.Sprintf("--map=%s=%s@%s", p.c.at(p.c.APIPort), address(11).String()+":6443", p.netns("lin01")),
			fmt.Sprintf("--map=%s=%s@%s", p.c.at(p.c.RegistryPort), registryAddress(), tor)},
	})
}

func registryAddress() string { return lab.Router.String() + ":5000" }

// linuxNode adds the processes of a Linux node. The node runs our kubelet and routes beside upstream's kube-proxy,
// because our service proxy is for Windows. They wait for the API server, and the kubelet for containerd too.
func (p *planner) linuxNode(n Node) {
	file := func(parts ...string) string { return p.l.NodeFile(n.Name, parts...) }
	add := func(name string, path string, wait []supervise.Condition, args ...string) {
		p.add(supervise.Process{Name: n.Name + "/" + name, Node: n.Name, Path: path, Args: args, Netns: p.netns(n.Name),
			Log: p.l.NodeLog(n.Name, name), WaitFor: wait})
	}
	containerd := supervise.Condition{Path: containerdSocket(p.l, n), Dial: true}
	p.add(p.containerd(n))
	kubelet, args := p.l.Bundled("kubelet"), []string{"--config=" + file("kubernetes", "kubelet.json"),
		"--kubeconfig=" + file("kubernetes", "kubelet.kubeconfig"), "--hostname-override=" + n.Name,
		"--node-ip=" + p.c.nodeIPs(n), "--root-dir=" + file("kubelet"), "--v=2"}
	if p.c.LinuxKubelet != KubeletUpstream {
		// The nodes have one file system: each has a folder of its own, and none has this machine's.
		kubelet, args = p.l.Porthole(), slices.Concat([]string{"kubelet"}, args,
			[]string{"--device-plugin-dir=" + file("kubelet", "device-plugins"), "--keep-kernel-settings"})
	}
	add("kubelet", kubelet, []supervise.Condition{p.apiReady(), containerd}, args...)
	if p.c.network().services == nil {
		add("kube-proxy", p.l.Bundled("kube"), []supervise.Condition{p.apiReady()},
			"kube-proxy", "--config="+file("kubernetes", "kube-proxy.json"), "--hostname-override="+n.Name)
	}
	add("routes", p.l.Porthole(), []supervise.Condition{p.apiReady()},
		append(p.routesArgs(n, file("kubernetes", "routes.kubeconfig")), "--cni-conf-dir="+file("cni", "net.d"),
			"--cni-data-dir="+file("cni", "data"), "--state-dir="+file("routes"))...)
}

// routesArgs returns the arguments of `porthole routes`, which are the same on Linux and Windows but for their paths.
func (p *planner) routesArgs(n Node, kubeconfig string) []string {
	args := []string{"routes", "--kubeconfig=" + kubeconfig, "--hostname-override=" + n.Name,
		"--node-ip=" + p.c.nodeIPs(n),
		"--cluster-cidr=" + join(p.ranges.pods), "--service-cidr=" + join(p.ranges.services), "--mode=" + p.c.Network}
	if n.Windows && p.c.WindowsAdapter != "" {
		args = append(args, "--adapter="+p.c.WindowsAdapter)
	}
	if more := p.c.network().routes; more != nil {
		args = append(args, more(p.l, p.c, n, kubeconfig[:strings.LastIndexAny(kubeconfig, `/\`)])...)
	}
	return args
}

func (p *planner) containerd(n Node) supervise.Process {
	return supervise.Process{
		Name: n.Name + "/containerd", Node: n.Name, Path: p.l.Bundled("containerd"), Netns: p.netns(n.Name),
		Hostname: n.Name, // pods of the host's network see it
		Log:      p.l.NodeLog(n.Name, "containerd"),
		Args:     []string{"--config", p.l.NodeFile(n.Name, "containerd", "config.toml")},
		Env:      []string{"PATH=" + filepath.Join(p.l.Bin, "bundle") + ":/usr/sbin:/usr/bin:/sbin:/bin"},
	}
}

// windowsNode adds the processes of a Windows node. The emulated host's own parts are Linux programs; what an
// administrator would install on Windows runs under Wine.
func (p *planner) windowsNode(n Node) {
	node := func(name, path string, env []string, wait []supervise.Condition, args ...string) supervise.Process {
		return supervise.Process{Name: n.Name + "/" + name, Node: n.Name, Path: path, Args: args, Env: env,
			Netns: p.netns(n.Name),
			Log:   p.l.NodeLog(n.Name, name), WaitFor: wait, Follows: p.follows(n, path)}
	}

	windowsHost := hostOf(p.l, p.c, n)
	listens := map[string]supervise.Condition{}
	for _, part := range windowsHost.Processes(p.tools, p.l.Porthole()) {
		var wait []supervise.Condition
		if part.After != "" {
			wait = []supervise.Condition{listens[part.After]}
		}
		made := node(part.Name, part.Path, part.Env, wait, part.Args...)
		made.Before, made.MakesBox = part.Before, part.MakesBox
		if part.Box {
			made.Box, made.Dir = windowsHost.Dir, windowsHost.Prefix().DriveC()
		}
		p.add(made)
		listens[part.Name] = supervise.Condition{TCP: part.Listens, Netns: p.netns(n.Name)}
	}

	if p.c.Supervisor == SuperviseServices {
		return // the node's service manager starts its programs
	}
	// A node is installed when its cluster is there. From then on its programs start with Windows, whatever can be
	// reached then.
	program := func(name string, wait []supervise.Condition, exe string, args ...string) {
		argv := p.tools.Argv(exe, args...)
		made := node(name, argv[0], p.tools.Env(windowsHost.Prefix()), wait, argv[1:]...)
		// a path without a drive letter is one of the drive that a program is started on
		made.Box, made.Dir = windowsHost.Dir, windowsHost.Prefix().DriveC()
		made.WaitOnce = []supervise.Condition{p.apiReady()}
		p.add(made)
	}
	// containerd.exe listens on a named pipe, which Linux does not see: the kubelet waits for that
	hns, runtime := listens["hnsd"], listens["hcsd"]

	kubelet := []string{`C:\k\kubelet.exe`, `--config=C:\etc\kubernetes\kubelet.json`,
		`--kubeconfig=C:\etc\kubernetes\kubelet.kubeconfig`,
		"--hostname-override=" + n.Name, "--node-ip=" + p.c.nodeIPs(n), `--root-dir=C:\var\lib\kubelet`,
		`--registry-config=C:\etc\containerd\certs.d`, "--v=2"}
	if p.c.WindowsKubeletOnly { // others make the pod network, and write no boot record
		program("kubelet", []supervise.Condition{runtime, hns}, kubelet[0], kubelet[1:]...)
		return
	}
	program("kubelet", []supervise.Condition{runtime, hns}, kubelet[0],
		append(kubelet[1:], "--network-boot-record="+bootrecord.Folder+`\`+bootrecord.Network)...)
	if p.c.network().services == nil {
		program("kube-proxy", []supervise.Condition{hns},
			`C:\k\kube-proxy.exe`, `--config=C:\etc\kubernetes\kube-proxy.json`, "--hostname-override="+n.Name)
	}
	program("routes", []supervise.Condition{hns},
		`C:\k\porthole.exe`, append(p.routesArgs(n, `C:\etc\kubernetes\routes.kubeconfig`),
			`--cni-conf-dir=C:\etc\cni\net.d`)...)
}

// follows returns the process that a program depends on: for a Windows program, the wineserver of its host.
func (p *planner) follows(n Node, path string) string {
	if path == wine.Starter {
		return n.Name + "/wineserver"
	}
	return ""
}

// hostOf describes a node as the emulator knows it.
func hostOf(l Layout, c Config, n Node) host.Host {
	h := host.Host{Name: n.Name, OS: n.OS(), Build: n.Build, Address: n.Address, Netns: c.lab().Netns(n.Name),
		Cluster: c.Name, Dir: l.Host(n.Name),
		Firewall: n.Windows && c.WindowsFirewall, NICFlap: c.WindowsNICFlap, Cards: c.cards(n)}
	if n.Windows {
		h.Memory, _ = host.ParseMemory(c.WindowsMemory) // Validate reports an error
		h.Runtime, h.ServiceManager = host.ContainerdExe, c.Supervisor == SuperviseServices
	}
	return h
}
