// Package config says what a local cluster is: what its user has chosen, and what follows from that, such as its nodes,
// their addresses and network cards, and the ranges of pods and services. A file of the state folder keeps the choice.
package config

import (
	"cmp"
	"net"
	"strconv"
	"time"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/node/routes"
)

// Version of Kubernetes that bundle/controlplane builds.
const Version = "v1.36.3"

// Cluster is what a user chooses at `porthole up`.
type Cluster struct {
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

// Values of Cluster.Supervisor. With SuperviseProcesses the cluster's supervisor starts the programs of Windows nodes,
// and package nodes writes their files. With SuperviseServices each Windows node has a service manager, and
// `porthole.exe join` on the node does all of it, as on Windows.
const (
	SuperviseProcesses = "processes"
	SuperviseServices  = "services"
)

// Values of Cluster.LinuxKubelet: upstream's is there to be compared with.
const (
	KubeletOurs     = "porthole"
	KubeletUpstream = "upstream"
)

// Default is one Linux node and two Windows Server 2022 nodes.
func Default() Cluster {
	return Cluster{LinuxNodes: 1, WindowsNodes: 2, WindowsBuild: "20348", LinuxKubelet: KubeletOurs,
		Supervisor: SuperviseProcesses, Network: routes.DefaultMode,
		PodCIDR: lab.PodRange.String(), APIPort: 6443, RegistryPort: 5000}
}

// Largest is a cluster of this name with every node that it can have.
func Largest(name string) Cluster {
	c := Default()
	c.Name = name
	c.LinuxNodes = maxLinuxNodes
	c.WindowsNodes = maxWindowsNodes
	return c
}

// Nodes have the lab's addresses .11 to .19 and .21 to .60; hosts on their own begin at .101.
const (
	maxLinuxNodes   = 9
	maxWindowsNodes = 40
)

// Lab is the network that the cluster's hosts are in.
func (c Cluster) Lab() lab.Lab { return lab.Lab(c.Name) }

// Netns is the path of the network namespace of a node.
func (c Cluster) Netns(node string) string { return platform.NetnsPath(c.Lab().Netns(node)) }

// RouterNetns is the path of the network namespace of the router between the nodes.
func (c Cluster) RouterNetns() string { return platform.NetnsPath(c.Lab().RouterNetns()) }

// listen is the address that the API server's and the registry's ports are on.
func (c Cluster) listen() string { return cmp.Or(c.Listen, "127.0.0.1") }

// At is a port of the machine's, on the address that the user has chosen.
func (c Cluster) At(port int) string { return net.JoinHostPort(c.listen(), strconv.Itoa(port)) }
