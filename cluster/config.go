package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/winbuild"
	"porthole.dev/porthole/node/routes"
)

// Version of Kubernetes that bundle/controlplane builds.
const Version = "v1.36.3"

// Config is what a user chooses at `porthole up`.
type Config struct {
	// Name of the cluster, as program.StateDir takes it; empty: the default. Clusters with different names run side by
	// side.
	Name         string `json:"name,omitempty"`
	LinuxNodes   int    `json:"linuxNodes"`
	WindowsNodes int    `json:"windowsNodes"`
	// WindowsBuild is the build of the Windows nodes. If it has several, separated by commas, the nodes get them in
	// turn.
	WindowsBuild string `json:"windowsBuild"`
	Network      string `json:"network"`
	// PodCIDR is the range of all pods: of IPv4, or of IPv4 and behind a comma of IPv6. Empty: lab.PodRange.
	PodCIDR string `json:"podCIDR,omitempty"`
	// NodeMask is the length of a node's pod range of IPv4; 0: 24, or longer where PodCIDR is too small for that.
	NodeMask int `json:"nodeCIDRMask,omitempty"`
	// WindowsKubeletOnly leaves Windows nodes with a kubelet and containerd.exe: their network and kube-proxy are to
	// come as HostProcess pods.
	WindowsKubeletOnly bool `json:"windowsKubeletOnly,omitempty"`
	// Supervisor starts the programs of Windows nodes: SuperviseProcesses or SuperviseServices.
	Supervisor string `json:"supervisor"`
	// WindowsFirewall drops what comes in to the Windows nodes themselves, but for the programs that rules allow, as
	// Windows Server does.
	WindowsFirewall bool `json:"windowsFirewall,omitempty"`
	// WindowsMemory is what Windows nodes have of memory, as Kubernetes writes it ("4Gi"). Empty: all of the machine.
	WindowsMemory string `json:"windowsMemory,omitempty"`
	// WindowsNICFlap is how long the network card of a Windows node is away when a virtual switch takes it over
	// (host.Host.NICFlap).
	WindowsNICFlap time.Duration `json:"windowsNICFlap,omitempty"`
	// WindowsNIC gives each Windows node a second network card, "Ethernet 2", in this subnet:
	// SUBNET[,gateway=ADDRESS[,metric=N]] (lab.ParseCard).
	WindowsNIC string `json:"windowsNIC,omitempty"`
	// WindowsAdapter is --adapter of `porthole routes` on Windows nodes. Empty: the network is bound to the card with
	// the node's address.
	WindowsAdapter string `json:"windowsAdapter,omitempty"`
	// LinuxKubelet is the kubelet of Linux nodes: KubeletOurs, which empty means too (of a cluster that an earlier
	// version made), or KubeletUpstream.
	LinuxKubelet string `json:"linuxKubelet,omitempty"`
	// Listen is the address of the machine that APIPort and RegistryPort are on. Empty: 127.0.0.1. No user of the API
	// server or of the registry becomes trusted by where it comes from.
	Listen       string `json:"listen,omitempty"`
	APIPort      int    `json:"apiPort"`
	RegistryPort int    `json:"registryPort"`
}

// Values of Config.Supervisor. With SuperviseProcesses the cluster's supervisor starts the programs of Windows nodes,
// and this package writes their files. With SuperviseServices each Windows node has a service manager, and
// `porthole.exe join` on the node does all of it, as on Windows.
const (
	SuperviseProcesses = "processes"
	SuperviseServices  = "services"
)

// Values of Config.LinuxKubelet: upstream's is there to be compared with.
const (
	KubeletOurs     = "porthole"
	KubeletUpstream = "upstream"
)

// DefaultConfig is one Linux node and two Windows Server 2022 nodes.
func DefaultConfig() Config {
	return Config{LinuxNodes: 1, WindowsNodes: 2, WindowsBuild: "20348", LinuxKubelet: KubeletOurs,
		Supervisor: SuperviseProcesses, Network: routes.DefaultMode,
		PodCIDR: lab.PodRange.String(), APIPort: 6443, RegistryPort: 5000}
}

// Lab is the network of the cluster in a folder.
func Lab(dir string) (lab.Lab, error) {
	l, err := NewLayout(dir)
	if err != nil {
		return "", err
	}
	c, err := readConfig(l)
	return c.lab(), err
}

// lab is the network that the cluster's hosts are in.
func (c Config) lab() lab.Lab { return lab.Lab(c.Name) }

// listen is the address that the API server's and the registry's ports are on.
func (c Config) listen() string { return cmp.Or(c.Listen, "127.0.0.1") }

// at is a port of the machine's.
func (c Config) at(port int) string { return net.JoinHostPort(c.listen(), strconv.Itoa(port)) }

// Nodes have the lab's addresses .11 to .19 and .21 to .60; hosts on their own begin at .101.
const (
	maxLinuxNodes   = 9
	maxWindowsNodes = 40
)

// Validate returns an error that names the flag with a wrong value and the values that it may have.
func (c Config) Validate() error {
	if c.LinuxNodes < 1 || c.LinuxNodes > maxLinuxNodes {
		return fmt.Errorf("--linux-nodes %d: must be 1 to %d (the control plane and CoreDNS run on lin01)",
			c.LinuxNodes, maxLinuxNodes)
	}
	if c.WindowsNodes < 0 || c.WindowsNodes > maxWindowsNodes {
		return fmt.Errorf("--windows-nodes %d: must be 0 to %d", c.WindowsNodes, maxWindowsNodes)
	}

	if _, err := netip.ParseAddr(c.listen()); err != nil {
		return fmt.Errorf("--listen %s: must be an address of this machine, or 0.0.0.0", c.Listen)
	}
	if c.LinuxKubelet != "" && c.LinuxKubelet != KubeletOurs && c.LinuxKubelet != KubeletUpstream {
		return fmt.Errorf("--linux-kubelet %s: %s or %s", c.LinuxKubelet, KubeletOurs, KubeletUpstream)
	}
	if _, err := c.builds(); err != nil {
		return fmt.Errorf("--windows-build %s: %w", c.WindowsBuild, err)
	}
	if _, err := host.ParseMemory(c.WindowsMemory); err != nil {
		return fmt.Errorf("--windows-memory %s: %w", c.WindowsMemory, err)
	}
	if err := c.checkSupervisor(); err != nil {
		return err
	}
	if _, err := c.ranges(); err != nil {
		return err
	}
	if !slices.Contains(routes.Modes(), c.Network) {
		if instead := contract.Instead(c.Network); instead != "" {
			return fmt.Errorf("--network %s: %s; known: %s", c.Network, instead, strings.Join(routes.Modes(), ", "))
		}
		return fmt.Errorf("--network %s is not known; known: %s", c.Network, strings.Join(routes.Modes(), ", "))
	}
	return errors.Join(c.checkFamilies(), c.checkCards())
}

// checkSupervisor returns an error if Windows nodes are to be set up by `porthole.exe join`, and it does not do what
// else is asked for.
func (c Config) checkSupervisor() error {
	if c.Supervisor == SuperviseProcesses {
		return nil
	}
	if c.Supervisor != SuperviseServices {
		return fmt.Errorf("--supervisor %s: %s or %s", c.Supervisor, SuperviseProcesses, SuperviseServices)
	}
	for flag, given := range map[string]bool{
		"--windows-kubelet-only": c.WindowsKubeletOnly,
		"--windows-firewall":     c.WindowsFirewall,
		"--windows-adapter":      c.WindowsAdapter != "",
		"--pod-cidr with IPv6":   c.dual(),
	} {
		if given {
			return fmt.Errorf("%s: not with --supervisor %s, by which Windows nodes are set up by `porthole join`",
				flag, SuperviseServices)
		}
	}
	return nil
}

// checkFamilies returns an error if something of the cluster has no IPv6 and its pods have a range of it.
func (c Config) checkFamilies() error {
	if !c.dual() {
		return nil
	}
	if err := routes.CheckFamilies(c.Network); err != nil {
		return fmt.Errorf("--pod-cidr %s: %w", c.PodCIDR, err)
	}
	for _, n := range c.Nodes() {
		if n.Windows && winbuild.Build(n.Build) < winbuild.Server2004 {
			return fmt.Errorf(
				"--pod-cidr %s: Windows of build %d has no networks with IPv6, which begin with build %d: choose another --windows-build, or a range of IPv4 alone", c.PodCIDR, n.Build, winbuild.Server2004)
		}
	}
	return nil
}

// builds returns the builds that the Windows nodes take in turn.
func (c Config) builds() ([]int, error) {
	var out []int
	for _, text := range strings.Split(c.WindowsBuild, ",") {
		b, err := winbuild.ParseBuild(text)
		if err != nil {
			return nil, err
		}
		if _, err := wine.LookupBuild(int(b)); err != nil {
			return nil, err
		}
		out = append(out, int(b))
	}
	return out, nil
}

// Node is one host of the cluster.
type Node struct {
	Name    string     `json:"name"`
	Windows bool       `json:"windows"`
	Build   int        `json:"build,omitempty"` // of Windows
	Address netip.Addr `json:"address"`
}

// OS is the node's operating system as Kubernetes names it.
func (n Node) OS() string {
	if n.Windows {
		return "windows"
	}
	return "linux"
}

// Nodes of the cluster: lin01… from 10.99.0.11, win01… from 10.99.0.21.
func (c Config) Nodes() []Node {
	var nodes []Node
	for i := 1; i <= c.LinuxNodes; i++ {
		nodes = append(nodes, Node{Name: inspect.LinuxNode(i), Address: address(10 + i)})
	}
	builds, err := c.builds()
	if err != nil { // Validate reports it
		builds = []int{0}
	}
	for i := 1; i <= c.WindowsNodes; i++ {
		nodes = append(nodes, Node{Name: inspect.WindowsNode(i), Windows: true, Build: builds[(i-1)%len(builds)],
			Address: address(firstWindows + i - 1)})
	}
	return nodes
}

// networked are the nodes that `porthole up` gives a pod network.
func (c Config) networked() []Node {
	return slices.DeleteFunc(c.Nodes(), func(n Node) bool { return n.Windows && c.WindowsKubeletOnly })
}

// firstWindows is the last byte of the address of win01; the other Windows nodes follow.
const firstWindows = 21

func address(last int) netip.Addr {
	b := lab.Underlay.Addr().As4()
	b[3] = byte(last)
	return netip.AddrFrom4(b)
}
