// Package plan says which programs make a local cluster, with which arguments. It runs none of them: package supervise
// does.
package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/cluster/process"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/bootrecord"
)

// Processes is the whole cluster as a list of programs; a pure function of layout, configuration and where Wine is.
// The error is for a configuration whose ranges of addresses are not valid.
func Processes(l layout.Layout, c config.Cluster, tools wine.Tools) ([]supervise.Process, error) {
	ranges, err := c.Ranges()
	if err != nil {
		return nil, err
	}
	p := planner{l: l, c: c, tools: tools, ranges: ranges, mode: network.Of(c)}

	p.cluster()
	if p.mode.Router != nil {
		p.add(p.mode.Router(l, c)...)
	}

	for _, n := range c.Nodes() {
		if n.Windows {
			p.windowsNode(n)
		} else {
			p.linuxNode(n)
		}
		if p.mode.Node != nil {
			more, err := p.mode.Node(l, c, n)
			if err != nil {
				return nil, err
			}
			p.add(more...)
		}
	}
	return p.list, nil
}

type planner struct {
	l      layout.Layout
	c      config.Cluster
	tools  wine.Tools
	ranges config.Ranges
	mode   network.Mode
	list   []supervise.Process
}

func (p *planner) add(list ...supervise.Process) { p.list = append(p.list, list...) }

// cluster adds the processes of which a cluster has one: the registry, the control plane, metrics-server, and the
// relay. The relay runs in the machine's own network namespace, where kubectl is, and connects into those of the
// others.
func (p *planner) cluster() {
	tor := p.c.RouterNetns()
	p.add(supervise.Process{
		Name: "registry", Path: p.l.Bundled("registry"), Netns: tor, Log: p.l.Log("registry"),
		Args: []string{"serve", "--listen", config.Registry(), "--dir", p.l.Images(), "--push-login",
			p.l.RegistryLogin()},
	})
	p.add(supervise.Process{
		Name: "controlplane", Node: "lin01", Path: p.l.Bundled("kube"), Netns: p.c.Netns("lin01"),
		Log:  p.l.Log("controlplane"),
		Args: []string{"controlplane", "--config", filepath.Join(p.l.ControlPlane(), "config.json")},
	})
	p.add(metricsServer(p.l, p.c))
	p.add(supervise.Process{
		Name: "relay", Path: p.l.Porthole(), Log: p.l.Log("relay"),
		Args: []string{"relay",
			fmt.Sprintf("--map=%s=%s@%s", p.c.At(p.c.APIPort), config.APIServer(), p.c.Netns("lin01")),
			fmt.Sprintf("--map=%s=%s@%s", p.c.At(p.c.RegistryPort), config.Registry(), tor)},
	})
}

// linuxNode adds the processes of a Linux node. The node runs our kubelet and routes beside upstream's kube-proxy,
// because our service proxy is for Windows. They wait for the API server, and the kubelet for containerd too.
func (p *planner) linuxNode(n config.Node) {
	file := func(parts ...string) string { return p.l.NodeFile(n.Name, parts...) }
	add := func(name string, path string, wait []supervise.Condition, args ...string) {
		made := process.OnNode(p.l, p.c, n.Name, name)
		made.Path = path
		made.Args = args
		made.WaitFor = wait
		p.add(made)
	}

	containerd := supervise.Condition{Path: p.l.ContainerdSocket(n.Name), Dial: true}
	p.add(p.containerd(n))
	kubelet := p.l.Bundled("kubelet")
	args := []string{"--config=" + file("kubernetes", "kubelet.json"),
		"--kubeconfig=" + file("kubernetes", "kubelet.kubeconfig"), "--hostname-override=" + n.Name,
		"--node-ip=" + p.c.NodeIPs(n), "--root-dir=" + file("kubelet"), "--v=2"}
	if p.c.LinuxKubelet != config.KubeletUpstream {
		// The nodes have one file system: each has a folder of its own, and none has this machine's.
		kubelet = p.l.Porthole()
		args = slices.Concat([]string{"kubelet"}, args,
			[]string{"--device-plugin-dir=" + file("kubelet", "device-plugins"), "--keep-kernel-settings"})
	}
	add("kubelet", kubelet, []supervise.Condition{process.APIReady(p.c), containerd}, args...)
	if !p.mode.OwnServices() {
		add("kube-proxy", p.l.Bundled("kube"), []supervise.Condition{process.APIReady(p.c)},
			"kube-proxy", "--config="+file("kubernetes", "kube-proxy.json"), "--hostname-override="+n.Name)
	}
	add("routes", p.l.Porthole(), []supervise.Condition{process.APIReady(p.c)},
		append(p.routesArgs(n, file("kubernetes", "routes.kubeconfig")), "--cni-conf-dir="+file("cni", "net.d"),
			"--cni-data-dir="+file("cni", "data"), "--state-dir="+file("routes"))...)
}

// routesArgs returns the arguments of `porthole routes`, which are the same on Linux and Windows but for their paths.
func (p *planner) routesArgs(n config.Node, kubeconfig string) []string {
	args := []string{"routes", "--kubeconfig=" + kubeconfig, "--hostname-override=" + n.Name,
		"--node-ip=" + p.c.NodeIPs(n),
		"--cluster-cidr=" + p.ranges.PodCIDRs(), "--service-cidr=" + p.ranges.ServiceCIDRs(), "--mode=" + p.c.Network}
	if n.Windows && p.c.WindowsAdapter != "" {
		args = append(args, "--adapter="+p.c.WindowsAdapter)
	}
	if more := p.mode.Routes; more != nil {
		args = append(args, more(p.l, p.c, n, kubeconfig[:strings.LastIndexAny(kubeconfig, `/\`)])...)
	}
	return args
}

func (p *planner) containerd(n config.Node) supervise.Process {
	made := process.OnNode(p.l, p.c, n.Name, "containerd")
	made.Path = p.l.Bundled("containerd")
	made.Hostname = n.Name // pods of the host's network see the name
	made.Args = []string{"--config", p.l.NodeFile(n.Name, "containerd", "config.toml")}
	made.Env = []string{"PATH=" + filepath.Join(p.l.Bin, "bundle") + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	return made
}

// windowsNode adds the processes of a Windows node. The emulated host's own parts are Linux programs; what an
// administrator would install on Windows runs under Wine.
func (p *planner) windowsNode(n config.Node) {
	node := func(name, path string, env []string, wait []supervise.Condition, args ...string) supervise.Process {
		made := process.OnNode(p.l, p.c, n.Name, name)
		made.Path = path
		made.Args = args
		made.Env = env
		made.WaitFor = wait
		made.Follows = follows(n, path)
		return made
	}

	windowsHost := p.c.Host(p.l, n)
	listens := map[string]supervise.Condition{}
	for _, part := range windowsHost.Processes(p.tools, p.l.Porthole()) {
		var wait []supervise.Condition
		if part.After != "" {
			wait = []supervise.Condition{listens[part.After]}
		}
		made := node(part.Name, part.Path, part.Env, wait, part.Args...)
		made.Before = part.Before
		made.MakesBox = part.MakesBox
		if part.Box {
			made.Box = windowsHost.Dir
			made.Dir = windowsHost.Prefix().DriveC()
		}
		p.add(made)
		listens[part.Name] = supervise.Condition{TCP: part.Listens, Netns: p.c.Netns(n.Name)}
	}

	if p.c.Supervisor == config.SuperviseServices {
		return // the node's service manager starts its programs
	}
	// A node is installed when its cluster is there. From then on its programs start with Windows, whatever can be
	// reached then.
	program := func(name string, wait []supervise.Condition, exe string, args ...string) {
		argv := p.tools.Argv(exe, args...)
		made := node(name, argv[0], p.tools.Env(windowsHost.Prefix()), wait, argv[1:]...)
		// a path without a drive letter is one of the drive that a program is started on
		made.Box = windowsHost.Dir
		made.Dir = windowsHost.Prefix().DriveC()
		made.WaitOnce = []supervise.Condition{process.APIReady(p.c)}
		p.add(made)
	}
	// containerd.exe listens on a named pipe, which Linux does not see: the kubelet waits for that
	hns, runtime := listens["hnsd"], listens["hcsd"]

	kubelet := []string{`C:\k\kubelet.exe`, `--config=C:\etc\kubernetes\kubelet.json`,
		`--kubeconfig=C:\etc\kubernetes\kubelet.kubeconfig`,
		"--hostname-override=" + n.Name, "--node-ip=" + p.c.NodeIPs(n), `--root-dir=C:\var\lib\kubelet`,
		`--registry-config=C:\etc\containerd\certs.d`, "--v=2"}
	if p.c.WindowsKubeletOnly { // others make the pod network, and write no boot record
		program("kubelet", []supervise.Condition{runtime, hns}, kubelet[0], kubelet[1:]...)
		return
	}
	program("kubelet", []supervise.Condition{runtime, hns}, kubelet[0],
		append(kubelet[1:], "--network-boot-record="+bootrecord.Folder+`\`+bootrecord.Network)...)
	if !p.mode.OwnServices() {
		program("kube-proxy", []supervise.Condition{hns},
			`C:\k\kube-proxy.exe`, `--config=C:\etc\kubernetes\kube-proxy.json`, "--hostname-override="+n.Name)
	}
	program("routes", []supervise.Condition{hns},
		`C:\k\porthole.exe`, append(p.routesArgs(n, `C:\etc\kubernetes\routes.kubeconfig`),
			`--cni-conf-dir=C:\etc\cni\net.d`)...)
}

// follows returns the process that a program depends on: for a Windows program, the wineserver of its host.
func follows(n config.Node, path string) string {
	if path == wine.Starter {
		return n.Name + "/wineserver"
	}
	return ""
}
