// Package preflight decides, before anything is changed, whether a machine can become a node of a cluster. Each check
// is a pure function of facts that somebody else gathered. Its name is kubeadm's where kubeadm has the check.
package preflight

import "time"

// Facts are what is known about a machine and the cluster that it shall join. Err fields hold why something is not
// known: a check whose fact is not known fails, it never passes.
type Facts struct {
	System     string // windows or linux
	Privileged bool
	Node       string // the name that the node would have
	Hostname   string // of the machine
	InstallDir string

	Windows *WindowsFacts // nil on other systems
	Linux   *LinuxFacts   // nil on other systems

	Adapters []Adapter // those with a default route
	NIC      string    // --nic, "" if it was not given
	NodeIP   string    // --node-ip, "" if it was not given

	Runtime Runtime
	Kubelet ExistingKubelet
	Joined  *Joined // nil: this machine is no node
	Ports   []Port  // of ours that are in use
	Disk    []Space // where programs and containers go
	Memory  int64   // bytes
	Proxies []string
	// Cloud is the provider whose metadata service answers: aws, azure, gcp; "" without.
	Cloud string

	// OpenVSwitch is why the database of this machine's Open vSwitch does not answer; only asked for the mode ovn.
	OpenVSwitch error

	Cluster Cluster
}

// WindowsFacts are what only Windows has.
type WindowsFacts struct {
	Build        uint32
	Product      string // such as Windows Server 2022
	HNS          error  // why HNS does not answer; nil if it does
	NoService    []string
	Pending      []string // what asks for a restart
	LaterRename  bool     // PendingFileRenameOperations
	TestSigning  bool
	Environment  []string // variables of old scripts that are set
	RemoteAccess bool
	Firewall     string // what keeps our rules from working; "" if nothing does
	Path         string // of the program that runs
	NetworkPath  bool
	PauseImage   string // why the sandbox image does not fit; "" if it does
}

// LinuxFacts are what only Linux has.
type LinuxFacts struct {
	SwapBytes   int64
	FailSwapOn  bool // of kubelet-config
	CgroupV2    bool
	FailV1      bool // failCgroupV1 of kubelet-config
	Controllers []string
	Forwarding  string // content of /proc/sys/net/ipv4/ip_forward
	Conntrack   bool   // the kernel tracks connections
	Systemd     bool
}

// Adapter is a network adapter of the machine.
type Adapter struct{ Name, Address, MAC string }

// Runtime is the container runtime.
type Runtime struct {
	Endpoint string
	Version  string // such as containerd://2.3.6
	Err      error
}

// ExistingKubelet is a service called kubelet that is there already.
type ExistingKubelet struct {
	Program string // "" if there is none
	Ours    bool
}

// Joined is what node.json, or a kubelet.conf of somebody else, says.
type Joined struct {
	Node, Server, CAHash string
	Network              string // of a join that is finished; "": not known
}

// Port is one that a program of ours needs and somebody else has.
type Port struct {
	Number  int
	PID     int
	Program string
	Ours    bool
}

// Space is what is free where something of ours goes.
type Space struct {
	Path string
	Free int64
	Role string // install, containers
}

// Cluster is what was found out about the cluster. Problem is set if the API server, the clock or the discovery is at
// fault: then nothing below it is known.
type Cluster struct {
	Server  string
	CAHash  string
	Problem *Problem

	SkewKnown            bool
	Skew                 time.Duration // this machine's clock minus the API server's
	NotBefore, NotAfter  time.Time     // of the certificate authority
	Now                  time.Time     // of the API server
	Version, KubeletVers string
	PodSubnet            string
	ServiceSubnet        string

	Existing *ExistingNode // nil: no node has the name
	UUID     string        // of this machine
	Network  Network
	// Forbidden are the things that nodes may not do and must, such as "list endpointslices"; only known with a node's
	// certificate.
	Forbidden []string
}

// Problem is why the cluster could not be reached or trusted.
type Problem struct{ Check, Text, Cure string }

// ExistingNode is the Node object of our name.
type ExistingNode struct {
	Ready bool
	UUID  string
}

// Network is what the cluster tells about its network.
type Network struct {
	Wanted string // --network
	// Declared is the mode of the ConfigMap kube-system/porthole, which `porthole manifests` makes; "" if there is
	// none.
	Declared string
	// Known: the nodes could be listed, so that Kind and Remote count. A token may do so only after `porthole
	// manifests`.
	Known  bool
	Kind   string   // by the annotations of other nodes, such as flannel vxlan, Calico; "" if they have none
	Remote []string // nodes that are in no segment of this machine
	Advice *Advice  // nil: the cluster's own configuration was not read
}

// Advice is what the configuration of the cluster's network says about our modes; routes/fit finds it out.
type Advice struct {
	Plugin string   // such as flannel, calico; "" if none is known by name
	Mode   string   // of `porthole routes` that fits; "" if none does
	Flags  []string // of `porthole routes` for that mode
	Why    string
	Change []string // what to change so that a mode fits
	Unread []string // what could not be read: then no plugin is not "there is none"
}
