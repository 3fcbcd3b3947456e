package windows

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	"porthole.dev/porthole/internal/bootrecord"
)

// Options say what node the machine becomes.
type Options struct {
	Node   string // name; required
	NodeIP string // address, or one of each family with a comma; required
	// Source is the folder with the programs, as the archive has them. Required.
	Source string
	// Install is the folder for programs, such as C:\Program Files\Porthole; Data that for state and logs, such as
	// C:\ProgramData\Porthole; Root stands for / of a Linux node, such as C:\. All are required.
	Install, Data, Root string
	// Version names the programs, such as v0.9.0. Required.
	Version string

	// PodCIDR and ServiceCIDR are the cluster's ranges; required.
	PodCIDR, ServiceCIDR string
	// KubeletConfig is the kubelet's configuration of the cluster, as YAML or JSON. Required.
	KubeletConfig []byte
	// Patches are merge patches (RFC 7386), as YAML or JSON, for what becomes of it on Windows.
	Patches [][]byte
	// RuntimeEndpoint is the CRI; "" for containerd's pipe.
	RuntimeEndpoint string
	Mode            string // of `porthole routes`; "" for its default
	// RoutesArgs are further flags of `porthole routes`, and BGPConfig the file of its mode bgp; nil without.
	RoutesArgs []string
	BGPConfig  []byte
	// NoProxy: the mode implements services itself, so that no kube-proxy runs.
	NoProxy        bool
	Labels, Taints string // that the kubelet registers with; as its flags have them
	// KubeletArgs are further flags of the kubelet.
	KubeletArgs []string
	// Environment are variables of the services beside those of the machine.
	Environment map[string]string
	Verbosity   int

	// FirewallPorts are TCP ports to be let in beside those of our programs. NoFirewall: no rule is made.
	FirewallPorts []int
	NoFirewall    bool
	wall          wall // nil: this machine's; tests have their own
}

// Pipe is where containerd listens on Windows.
const Pipe = "npipe:////./pipe/containerd-containerd"

// check returns an error if an option is missing that the steps need to be carried out.
func (o *Options) check() error {
	if slices.Contains([]string{o.Node, o.NodeIP, o.Source, o.Install, o.Data, o.Root, o.Version, o.PodCIDR,
		o.ServiceCIDR}, "") || len(o.KubeletConfig) == 0 {
		return errors.New("the options of the node's steps are not complete")
	}
	return nil
}

// kubernetes returns the path of a file in etc\kubernetes, and kubelet one of a file in var\lib\kubelet.
func (o *Options) kubernetes(names ...string) string {
	return filepath.Join(append([]string{o.Root, "etc", "kubernetes"}, names...)...)
}

func (o *Options) kubelet(names ...string) string {
	return filepath.Join(append([]string{o.Root, "var", "lib", "kubelet"}, names...)...)
}

// Kubeconfig returns the path of the node's kubeconfig, which all its services use.
func (o *Options) Kubeconfig() string { return o.kubernetes("kubelet.conf") }

// BGPFile returns the path of the configuration of the mode bgp.
func (o *Options) BGPFile() string { return o.kubernetes("porthole-bgp.yaml") }

func (o *Options) logs() string    { return filepath.Join(o.Data, "logs") }
func (o *Options) plugins() string { return filepath.Join(o.Root, "opt", "cni", "bin") }
func (o *Options) cniConf() string { return filepath.Join(o.Root, "etc", "cni", "net.d") }

// registries is the folder in which containerd finds the mirrors of registries.
func (o *Options) registries() string { return filepath.Join(o.Root, "etc", "containerd", "certs.d") }

// closedFolders are those from which the node's programs, the container runtime among them, read programs or
// configuration, and into which they write secrets. Who writes into one of them has a program run as SYSTEM, or reads
// keys. The folders of pods are not among them: what is in those is for containers.
func (o *Options) closedFolders() []string {
	return []string{o.Install, o.Data, o.logs(), o.kubernetes(), o.plugins(), o.cniConf(), o.registries(),
		o.kubelet("pki"),
		o.kubelet("plugins_registry"), o.kubelet("plugins"), o.kubelet("device-plugins"), o.kubelet("checkpoints"),
		o.kubelet("image_manager")}
}

// closedFiles are files of the kubelet's own folder, in which the folders of pods are too.
func (o *Options) closedFiles() []string {
	return append(o.kubeletPaths(), o.kubelet("config.json"))
}

// program returns the path of a program of the version.
func (o *Options) program(id, name string) string {
	return filepath.Join(o.Install, "versions", id, name)
}

// kubeletArgs returns the flags of the service kubelet.
func (o *Options) kubeletArgs() []string {
	args := append([]string{"--config=" + o.kubelet("config.yaml"), "--kubeconfig=" + o.Kubeconfig(),
		"--root-dir=" + o.kubelet(), "--cert-dir=" + o.kubelet("pki"),
		"--registry-config=" + o.registries(), "--network-boot-record=" + filepath.Join(o.Data, bootrecord.Network)},
		o.machineArgs()...)
	return append(append(args, o.verbosity()...), o.KubeletArgs...)
}

// machineArgs are the flags of the kubelet that belong to this machine. kubeadm keeps them in kubeadm-flags.env.
func (o *Options) machineArgs() []string {
	args := []string{"--hostname-override=" + o.Node, "--node-ip=" + o.NodeIP}
	if o.Labels != "" {
		args = append(args, "--node-labels="+o.Labels)
	}
	if o.Taints != "" {
		args = append(args, "--register-with-taints="+o.Taints)
	}
	return args
}

// proxyArgs returns the flags of the service kube-proxy.
func (o *Options) proxyArgs() []string {
	return append([]string{"--config=" + o.kubernetes("kube-proxy.yaml"), "--hostname-override=" + o.Node,
		"--state-file=" + filepath.Join(o.Data, bootrecord.Services)},
		o.verbosity()...)
}

// RoutesFlags returns the flags of the service porthole-routes.
func (o *Options) RoutesFlags() []string {
	args := []string{"--kubeconfig=" + o.Kubeconfig(), "--hostname-override=" + o.Node, "--node-ip=" + o.NodeIP,
		"--cluster-cidr=" + o.PodCIDR,
		"--service-cidr=" + o.ServiceCIDR, "--cni-conf-dir=" + o.cniConf(), "--state-dir=" + o.Data,
		"--runtime-endpoint=" + o.RuntimeEndpoint}
	if o.Mode != "" {
		args = append(args, "--mode="+o.Mode)
	}
	if o.BGPConfig != nil {
		args = append(args, "--bgp-config="+o.BGPFile())
	}
	return append(append(args, o.verbosity()...), o.RoutesArgs...)
}

func (o *Options) verbosity() []string {
	if o.Verbosity == 0 {
		return nil
	}
	return []string{"--v=" + strconv.Itoa(o.Verbosity)}
}
