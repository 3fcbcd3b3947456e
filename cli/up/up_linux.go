// Package up is the command that brings a local cluster up.
package up

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/node/routes"
)

// webHint names the command that shows the cluster.
func webHint(dir, name string) string {
	if dir == cluster.DefaultDir {
		return "`porthole web` shows the cluster in a browser, live"
	}
	if name != "" && dir == cluster.DefaultDir+"-"+name {
		return fmt.Sprintf("`porthole web --name %s` shows the cluster in a browser, live", name)
	}
	return fmt.Sprintf("`porthole web --dir %s` shows the cluster in a browser, live", dir)
}

const examples = `  porthole up
  porthole up --windows-nodes 3 --windows-build 26100
  porthole up --windows-build 20348,26100        # win01 is Windows Server 2022, win02 is 2025
  porthole up --network vxlan --windows-kubelet-only   # flannel's and kube-proxy's DaemonSets of HostProcess pods do the rest
  porthole up --supervisor services              # Windows nodes are set up by porthole.exe join, and come back by themselves after a reboot
  porthole up --windows-firewall                 # with the inbound firewall of Windows Server, and rules for our programs
  porthole up --network tor --pod-cidr 10.244.0.0/16,fd00:10:244::/48
  porthole up --name two                         # a second cluster on this machine: see porthole status --name two
  porthole up --time-scale 10                    # on a slow machine, such as one that QEMU emulates without KVM
  porthole up --foreground --listen 0.0.0.0      # as the image of a release does it
  porthole up --dry-run`

// options of `porthole up`.
type options struct {
	config cluster.Config
	dir    string
	dryRun bool
	stay   bool
	scale  float64
}

// Command is `porthole up`.
func Command() *cobra.Command {
	o := options{config: cluster.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring up a cluster with Linux nodes and emulated Windows nodes on this machine",
		Long: `Brings up a stock Kubernetes control plane, Linux nodes and emulated Windows nodes on this machine, each host in a
network namespace of its own. Returns when all nodes are Ready and packets pass between all of them. On a running cluster
it changes nothing; after an interrupted run it finishes the work.`,
		Example: examples,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}

	f := cmd.Flags()
	program.StateDir(f, &o.dir, cluster.DefaultDir, "state folder")
	addShape(f, &o.config)
	f.Float64Var(&o.scale, "time-scale", 1,
		"by how much longer than usual everything may take, for a slow machine: 10 on one that QEMU emulates")
	f.BoolVar(&o.stay, "foreground", false,
		"stay after the cluster is ready, and take it down at SIGTERM or Ctrl-C: for a container, or a service manager")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be made and run, and change nothing")

	program.Values(cmd, "network", routes.Modes()...)
	program.Values(cmd, "linux-kubelet", cluster.KubeletOurs, cluster.KubeletUpstream)
	program.Values(cmd, "supervisor", cluster.SuperviseProcesses, cluster.SuperviseServices)
	program.Values(cmd, "windows-build", "17763", "20348", "26100")
	return cmd
}

// run brings the cluster up, or prints what it would do.
func (o *options) run(cmd *cobra.Command) error {
	layout, err := cluster.NewLayout(o.dir)
	if err != nil {
		return err
	}
	if o.config.Name, err = nameOf(cmd, layout); err != nil {
		return err
	}
	if err := o.config.Validate(); err != nil {
		return err
	}
	if o.scale < 1 {
		return program.Misused(fmt.Errorf("--time-scale %v: must be 1 or more", o.scale))
	}
	if err := choosePorts(cmd, layout, &o.config); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.dryRun {
		return cluster.PrintPlan(out, layout, o.config)
	}

	if o.scale > 1 { // otherwise the variable may have been set by who calls this
		if err := os.Setenv(slow.Variable, strconv.FormatFloat(o.scale, 'g', -1, 64)); err != nil {
			return err
		}
	}
	platform.SetUmask()
	err = cluster.Up(cmd.Context(), cluster.UpOptions{Layout: layout, Config: o.config, Out: out})
	if errors.Is(err, cluster.ErrNotReady) {
		return program.Refused(err)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, webHint(o.dir, o.config.Name)); err != nil || !o.stay {
		return err
	}
	return stay(cmd.Context(), layout.Dir, out)
}

// nameOf returns the name that the user gives, or that of the cluster which the folder has.
func nameOf(cmd *cobra.Command, l cluster.Layout) (string, error) {
	if f := cmd.Flags().Lookup("name"); f.Changed {
		return f.Value.String(), nil
	}
	name, err := cluster.Lab(l.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(name), err
}

// choosePorts gives a cluster with a name ports of its own where the user has not chosen any: those that it has, or the
// next free ones.
func choosePorts(cmd *cobra.Command, l cluster.Layout, config *cluster.Config) error {
	if config.Name == "" {
		return nil
	}
	api, registry, err := cluster.ChoosePorts(l)
	if !cmd.Flags().Changed("api-port") {
		config.APIPort = api
	}
	if !cmd.Flags().Changed("registry-port") {
		config.RegistryPort = registry
	}
	return err
}

// addShape adds the flags that say what the cluster is like.
func addShape(f *pflag.FlagSet, config *cluster.Config) {
	f.IntVar(&config.LinuxNodes, "linux-nodes", config.LinuxNodes, "Linux nodes, 1 to 9")
	f.IntVar(&config.WindowsNodes, "windows-nodes", config.WindowsNodes, "emulated Windows nodes, 0 to 40")
	f.StringVar(&config.LinuxKubelet, "linux-kubelet", config.LinuxKubelet,
		"kubelet of the Linux nodes: porthole, or upstream, to compare with")
	f.StringVar(&config.WindowsBuild, "windows-build", config.WindowsBuild,
		"Windows build of those nodes: 17763 (Server 2019), 20348 (2022), 26100 (2025); several with commas are taken in turn")
	f.StringVar(&config.Supervisor, "supervisor", config.Supervisor,
		"who starts the programs of Windows nodes: processes, the cluster's supervisor; services: the node's service manager, after porthole.exe join has set the node up, as on Windows")
	f.BoolVar(&config.WindowsKubeletOnly, "windows-kubelet-only", false,
		"Windows nodes run a kubelet and containerd.exe only, and are not Ready until HostProcess pods bring the pod network and kube-proxy")
	f.BoolVar(&config.WindowsFirewall, "windows-firewall", false,
		"Windows nodes drop what comes in, but for programs with a rule, as Windows Server does; makes the rules for our programs")
	f.StringVar(&config.WindowsMemory, "windows-memory", "",
		"memory of each Windows node, for example 4Gi; empty: that of the machine. Nothing is refused beyond it, but the kubelet evicts pods as it becomes scarce")

	f.DurationVar(&config.WindowsNICFlap, "windows-nic-flap", 0,
		"how long a Windows node has no link and no address when its first HNS network is made; Windows takes 1 to 10 s")
	f.StringVar(&config.WindowsNIC, "windows-nic", "",
		"second network card of Windows nodes, \"Ethernet 2\": SUBNET[,gateway=ADDRESS[,metric=N]], for example 10.98.0.0/24; with a gateway it has a default route")
	f.StringVar(&config.WindowsAdapter, "windows-adapter", "",
		"network card to which the pods' network of Windows nodes is bound, for example \"Ethernet 2\"; empty: the one with the node's address")
	f.StringVar(&config.Network, "network", config.Network,
		"how pods of different nodes reach each other: "+strings.Join(routes.Modes(), ", "))
	f.StringVar(&config.PodCIDR, "pod-cidr", config.PodCIDR,
		"range of all pods, of IPv4, or of IPv4 and behind a comma of IPv6, which gives pods, nodes and services both")
	f.IntVar(&config.NodeMask, "node-cidr-mask-size", 0,
		"length of a node's pod range of IPv4; 0: 24, or longer where --pod-cidr is too small for that")
	f.StringVar(&config.Listen, "listen", "",
		"address of this machine on which the API server and the image registry are reached; empty: 127.0.0.1")
	f.IntVar(&config.APIPort, "api-port", config.APIPort,
		"port of the API server on the address of --listen; with --name the next free one")
	f.IntVar(&config.RegistryPort, "registry-port", config.RegistryPort,
		"port of the image registry on the address of --listen; with --name the next free one")
}
