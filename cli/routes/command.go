// Package routes is the command routes: it keeps a node's routes to the other nodes and its pod network.
package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/logging"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/node/routes"
	"porthole.dev/porthole/routes/bgp"
	"porthole.dev/porthole/routes/vxlan"
)

type flags struct {
	kubeconfig, hostname, nodeIP, mode, confDir, stateDir, dataDir, adapter, bind, runtime string
	dns, search                                                                            []string
	ranges                                                                                 program.Ranges
	replaceNetwork, writeNode                                                              bool
	vxlanVNI                                                                               uint32
	vxlanPort                                                                              uint16
	vxlanHybrid                                                                            bool
	bgpConfig                                                                              string
	ovn                                                                                    ovnFlags
	router                                                                                 routerFlags
	verbosity                                                                              int

	fromCluster bool
	output      string // of fromCluster
}

// Command makes `porthole routes`. advise is for --from-cluster; nil: this program is without.
func Command(advise Advise) *cobra.Command {
	f := flags{}
	c := &cobra.Command{
		Use:   "routes",
		Short: "Keep this node's pod network and its routes to the other nodes",
		Long: "routes makes this node's pod network (on Windows the HNS network and the host's endpoint in it, on Linux the outbound\n" +
			"NAT), writes the CNI configuration, and keeps a route to the pod range of every other node through that node's address.\n" +
			"Routes and network stay when it ends.\n\n" +
			"With --from-cluster it changes nothing: it reads the network that a cluster has (flannel, Calico and others) and prints\n" +
			"which mode and flags fit, or why none does and what to change.\n\n" +
			"In the mode tor the router in front of the nodes has the routes: --print-router prints them, --check-router compares what it\n" +
			"has, and --keep-router follows the nodes and keeps them right (FRR, or a Linux kernel).",
		Example: "  porthole routes --from-cluster --kubeconfig=/etc/kubernetes/admin.conf\n" +
			"  porthole routes --print-router=frr --kubeconfig=/etc/kubernetes/admin.conf\n" +
			"  porthole routes --keep-router=frr --cluster-cidr=10.244.0.0/16 --kubeconfig=/etc/porthole/router.conf",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.router.wanted() {
				return f.router.run(c, f)
			}
			if f.fromCluster {
				return f.fit(c.Context(), advise, c.OutOrStdout())
			}
			o, err := f.resolve(os.Hostname)
			if err != nil {
				return err
			}
			return run(c.Context(), o, f.verbosity)
		},
	}

	f.register(c.Flags())
	program.Values(c, "mode", routes.Modes()...)
	return c
}

// Check returns the first mistake in the arguments of `porthole routes`, as that would when it starts.
func Check(args []string) error {
	f := flags{}
	fs := pflag.NewFlagSet("routes", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if rest := fs.Args(); len(rest) > 0 {
		return fmt.Errorf("%q is no flag", rest[0])
	}
	_, err := f.resolve(os.Hostname)
	return err
}

// register adds the flags of the command, with their defaults.
func (f *flags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig file with the API server's address and our credentials; required but in a pod, where the service account's are used")
	fs.StringVar(&f.hostname, "hostname-override", "", "name of this node; empty: the host's name in lower case")
	fs.StringVar(&f.nodeIP, "node-ip", "",
		"address of this node on the segment that the nodes share, or one of IPv4 and one of IPv6 with a comma;\nempty: its internal addresses in the API")
	fs.StringVar(&f.ranges.Pods, "cluster-cidr", "",
		"range of all pods, of IPv4 and, behind a comma, of IPv6 if the cluster has both (required)")
	fs.StringVar(&f.ranges.Services, "service-cidr", "", "range of all services, likewise (required)")
	fs.StringVar(&f.ranges.NodeBits, program.NodeBitsFlag, "", program.NodeBitsHelp)

	fs.StringVar(&f.mode, "mode", routes.DefaultMode,
		"how packets get to other nodes: "+strings.Join(routes.Modes(), ", "))
	fs.Uint32Var(&f.vxlanVNI, "vxlan-vni", vxlan.Default.VNI,
		"mode vxlan: number of the virtual network, the same on all nodes; Windows takes 4096 and above only")
	fs.Uint16Var(&f.vxlanPort, "vxlan-port", vxlan.Default.Port,
		"mode vxlan: UDP port of the encapsulated packets; Windows takes 4789 only")
	fs.BoolVar(&f.vxlanHybrid, "vxlan-hybrid-overlay", false,
		"mode vxlan, Windows: join the hybrid overlay of OVN-Kubernetes. Pod ranges and MAC addresses of nodes are those of its\n"+
			"annotations k8s.ovn.org/…, and the VNI is its own, 4097")
	f.ovn.register(fs)

	fs.StringVar(&f.confDir, "cni-conf-dir", "",
		"folder for the CNI configuration, the one that the container runtime reads: on Windows\n\"C:\\Program Files\\containerd\\cni\\conf\" by containerd's defaults, C:\\etc\\cni\\net.d by sig-windows-tools; empty: none is written")
	fs.StringVar(&f.stateDir, "state-dir", stateDir(),
		"folder for what has to outlive this program: on Windows the boot record (boot.json), and the host's routes while HNS changes\nits networks; in the mode bgp the nodes of the cluster")
	fs.StringVar(&f.dataDir, "cni-data-dir", "",
		"Linux: folder in which CNI keeps the addresses in use; empty: the plugin's default, one per machine")
	fs.BoolVar(&f.replaceNetwork, "replace-network", false,
		"Windows: replace an HNS network of our name that does not fit (another type, range or gateway)\n"+
			"although it holds endpoints, which are deleted with it; without this flag it is reported and left alone")
	fs.StringVar(&f.adapter, "adapter", "",
		"Windows: network adapter that a new HNS network is bound to, for example \"Ethernet 2\"; empty: the one with this node's address")

	fs.BoolVar(&f.writeNode, "write-node", true,
		"write the condition NetworkUnavailable of this node, and the annotations that flannel needs; false: nodes are only read")
	fs.BoolVar(&f.fromCluster, "from-cluster", false,
		"only read the cluster of --kubeconfig and print which mode fits its network; nothing is changed")
	fs.StringVarP(&f.output, "output", "o", "text", "with --from-cluster: text or json")
	fs.StringSliceVar(&f.dns, "cluster-dns", nil,
		"name servers for the CNI configuration of Windows pods; the kubelet's own settings win")
	fs.StringSliceVar(&f.search, "dns-search", nil, "DNS search list that goes with --cluster-dns")
	fs.StringVar(&f.runtime, "runtime-endpoint", runtimeEndpoint(),
		"Windows: container runtime's CRI. Endpoints and addresses of sandboxes that it does not know are freed after\n"+
			"5 minutes; empty: they are left alone")
	fs.StringVar(&f.bind, "bind", "127.0.0.1:10261",
		"address and port of /healthz, /readyz, /metrics and /status; empty: none")
	fs.StringVar(&f.bgpConfig, "bgp-config", "",
		"mode bgp: file with peers, AS number and times, YAML or JSON (docs/use/bgp.md); empty: those of the node's annotations")
	f.router.add(fs)
	fs.Bool(program.ServiceFlag, false, "run under the service manager of Windows, as the service porthole-routes")
	program.LogFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", 0, "log verbosity: 1 each changed route")
}

// overlay returns the configuration of the mode vxlan. windows says what this node runs.
func (f flags) overlay(windows bool) (vxlan.Config, error) {
	c := vxlan.Config{VNI: f.vxlanVNI, Port: f.vxlanPort, Hybrid: f.vxlanHybrid}
	switch {
	case !c.Hybrid:
		return c, nil
	case f.mode != vxlan.BackendType:
		return c, errors.New("--vxlan-hybrid-overlay needs --mode vxlan")
	case !windows:
		return c,
			errors.New(
				"--vxlan-hybrid-overlay is for Windows nodes: on Linux nodes OVN-Kubernetes itself makes the pod network and the tunnels")
	}
	if c.VNI == vxlan.Default.VNI {
		c.VNI = vxlan.HybridVNI
	}
	return c, nil
}

// resolve checks the flags and turns them into options. hostname is asked only if no flag names the node; node names
// are in lower case. A node address that is not given stays invalid: then that of the node object counts.
func (f flags) resolve(hostname func() (string, error)) (routes.Options, error) {
	o := routes.Options{
		Kubeconfig: f.kubeconfig, Node: f.hostname, Mode: f.mode, ConfDir: f.confDir, StateDir: f.stateDir,
		DataDir: f.dataDir, DNS: f.dns, Search: f.search,
		ReplaceNetwork: f.replaceNetwork, Adapter: f.adapter, Bind: f.bind, BootID: platform.BootID(),
		RuntimeEndpoint: f.runtime, ReadOnly: !f.writeNode,
	}
	if f.kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" { // pods have this variable
		return o, errors.New("--kubeconfig is required: the file with the API server's address and our credentials")
	}
	if err := checkMode(f.mode); err != nil {
		return o, err
	}
	var err error
	if o.BGP, err = f.bgp(); err != nil {
		return o, err
	}
	if f.mode == routes.OVN {
		if o.OVN, err = f.ovn.resolve(); err != nil {
			return o, err
		}
	}
	if o.VXLAN, err = f.overlay(platform.IsWindows); err != nil {
		return o, err
	}
	if f.mode == vxlan.BackendType {
		if err := o.VXLAN.Validate(); err != nil {
			return o, fmt.Errorf("--vxlan-vni and --vxlan-port: %w", err)
		}
	}

	if err := f.resolveRanges(&o); err != nil {
		return o, err
	}
	if o.NodeIP, o.NodeIP6, err = parseAddrs(f.nodeIP); err != nil {
		return o, err
	}
	if o.Node == "" {
		if o.Node, err = hostname(); err != nil {
			return o, fmt.Errorf("reading the host's name: %w", err)
		}
	}
	o.Node = strings.ToLower(strings.TrimSpace(o.Node))
	return o, nil
}

// resolveRanges reads the ranges of pods and services, which must not overlap and have the same families.
func (f flags) resolveRanges(o *routes.Options) (err error) {
	if o.Cluster, o.Cluster6, err = parseRanges("--cluster-cidr", f.ranges.Pods); err != nil {
		return err
	}
	if o.Services, o.Services6, err = parseRanges("--service-cidr", f.ranges.Services); err != nil {
		return err
	}
	if o.Cluster.Overlaps(o.Services) || o.Cluster6.IsValid() && o.Cluster6.Overlaps(o.Services6) {
		return fmt.Errorf("--cluster-cidr %s and --service-cidr %s overlap", f.ranges.Pods, f.ranges.Services)
	}
	if o.Cluster6.IsValid() != o.Services6.IsValid() {
		return fmt.Errorf("--cluster-cidr %s and --service-cidr %s must both have a range of IPv6, or none",
			f.ranges.Pods, f.ranges.Services)
	}

	if o.NodeBits4, o.NodeBits6, err = program.NodeBits(f.ranges.NodeBits); err != nil {
		return err
	}
	if o.Cluster6.IsValid() {
		if err := routes.CheckFamilies(f.mode); err != nil {
			return fmt.Errorf("--cluster-cidr %s: %w", f.ranges.Pods, err)
		}
	}
	return nil
}

// bgp reads the file of --bgp-config.
func (f flags) bgp() (bgp.Config, error) {
	if f.bgpConfig == "" {
		return bgp.Config{}, nil
	}
	if f.mode != "bgp" {
		return bgp.Config{}, fmt.Errorf("--bgp-config is for --mode bgp, and the mode is %s", f.mode)
	}
	text, err := os.ReadFile(f.bgpConfig)
	if err != nil {
		return bgp.Config{}, fmt.Errorf("--bgp-config: %w", err)
	}
	c, err := bgp.Parse(text)
	if err != nil {
		return c, fmt.Errorf("--bgp-config %s: %w", f.bgpConfig, err)
	}
	return c, nil
}

func checkMode(mode string) error {
	known := strings.Join(routes.Modes(), ", ")
	if slices.Contains(routes.Modes(), mode) {
		return nil
	}
	if instead := contract.Instead(mode); instead != "" {
		return fmt.Errorf("--mode %s: %s; known: %s", mode, instead, known)
	}
	return fmt.Errorf("--mode %q is not known; known: %s", mode, known)
}

// runtimeEndpoint is the default of --runtime-endpoint: containerd's pipe on Windows, none on Linux, where the plugins
// are others'.
func runtimeEndpoint() string {
	if runtime.GOOS == "windows" {
		return "npipe:////./pipe/containerd-containerd"
	}
	return ""
}

// stateDir is the default of --state-dir.
func stateDir() string {
	if runtime.GOOS == "windows" {
		return bootrecord.Folder
	}
	return "/var/lib/porthole"
}

// parseRanges reads a range of IPv4 and, behind a comma, one of IPv6.
func parseRanges(name, text string) (four, six netip.Prefix, err error) {
	if text == "" {
		return four, six, fmt.Errorf("%s is required, for example %s=10.244.0.0/16", name, name)
	}
	first, second, both := strings.Cut(text, ",")
	if four, err = netip.ParsePrefix(first); err != nil || !four.Addr().Is4() {
		return four, six, fmt.Errorf("%s %q is not an IPv4 range like 10.244.0.0/16", name, first)
	}
	if !both {
		return four.Masked(), six, nil
	}
	if six, err = netip.ParsePrefix(second); err != nil || !six.Addr().Is6() || six.Addr().Is4In6() {
		return four, six, fmt.Errorf("%s: %q behind the comma is not an IPv6 range like fd00:10:244::/48", name, second)
	}
	return four.Masked(), six.Masked(), nil
}

// parseAddrs reads the value of --node-ip, which may be empty: an address, or one of IPv4 and one of IPv6 with a comma.
func parseAddrs(text string) (addr, six netip.Addr, err error) {
	if text == "" {
		return addr, six, nil
	}
	first, second, both := strings.Cut(text, ",")
	if addr, err = netip.ParseAddr(first); err != nil {
		return addr, six, fmt.Errorf("--node-ip %q is not an address", first)
	}
	if !both {
		return addr, six, nil
	}
	if six, err = netip.ParseAddr(second); err != nil || !six.Is6() || !addr.Is4() {
		return addr, six, fmt.Errorf("--node-ip %q is neither one address nor one of IPv4 and then one of IPv6", text)
	}
	return addr, six, nil
}

func run(ctx context.Context, o routes.Options, verbosity int) error {
	if err := logging.Set(verbosity, ""); err != nil {
		return err
	}
	logger := klog.Background().WithName("routes")
	return routes.Run(klog.NewContext(ctx, logger), o)
}
