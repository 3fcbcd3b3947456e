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
	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/plan"
	"porthole.dev/porthole/cluster/preflight"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/node/routes"
)

// webHint names the command that shows the cluster.
func webHint(dir, name string) string {
	if dir == layout.DefaultDir {
		return "`porthole web` shows the cluster in a browser, live"
	}
	if name != "" && dir == layout.DefaultDir+"-"+name {
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
	config config.Cluster
	dir    string
	dryRun bool
	stay   bool
	scale  float64
}

// Command is `porthole up`.
func Command() *cobra.Command {
	o := options{config: config.Default()}
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
	program.StateDir(f, &o.dir, layout.DefaultDir, "state folder")
	addShape(f, &o.config)
	f.Float64Var(&o.scale, "time-scale", 1,
		"by how much longer than usual everything may take, for a slow machine: 10 on one that QEMU emulates")
	f.BoolVar(&o.stay, "foreground", false,
		"stay after the cluster is ready, and take it down at SIGTERM or Ctrl-C: for a container, or a service manager")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be made and run, and change nothing")

	program.Values(cmd, "network", routes.Modes()...)
	program.Values(cmd, "linux-kubelet", config.KubeletOurs, config.KubeletUpstream)
	program.Values(cmd, "supervisor", config.SuperviseProcesses, config.SuperviseServices)
	program.Values(cmd, "windows-build", "17763", "20348", "26100")
	return cmd
}

// run brings the cluster up, or prints what it would do.
func (o *options) run(cmd *cobra.Command) error {
	l, err := layout.New(o.dir)
	if err != nil {
		return err
	}
	if o.config.Name, err = nameOf(cmd, l); err != nil {
		return err
	}
	if err := o.config.Validate(); err != nil {
		return err
	}
	if o.scale < 1 {
		return program.Misused(fmt.Errorf("--time-scale %v: must be 1 or more", o.scale))
	}
	if err := choosePorts(cmd, l, &o.config); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.dryRun {
		return plan.Print(out, l, o.config)
	}

	if o.scale > 1 { // otherwise the variable may have been set by who calls this
		if err := os.Setenv(slow.Variable, strconv.FormatFloat(o.scale, 'g', -1, 64)); err != nil {
			return err
		}
	}
	platform.SetUmask()
	err = cluster.Up(cmd.Context(), cluster.UpOptions{Layout: l, Cluster: o.config, Out: out})
	if errors.Is(err, preflight.ErrNotReady) {
		return program.Refused(err)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, webHint(o.dir, o.config.Name)); err != nil || !o.stay {
		return err
	}
	return stay(cmd.Context(), l.Dir, out)
}

// nameOf returns the name that the user gives, or that of the cluster which the folder has.
func nameOf(cmd *cobra.Command, l layout.Layout) (string, error) {
	if f := cmd.Flags().Lookup("name"); f.Changed {
		return f.Value.String(), nil
	}
	name, err := config.LabOf(l.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(name), err
}

// choosePorts gives a cluster with a name ports of its own where the user has not chosen any: those that it has, or the
// next free ones.
func choosePorts(cmd *cobra.Command, l layout.Layout, c *config.Cluster) error {
	if c.Name == "" {
		return nil
	}
	api, registry, err := preflight.ChoosePorts(l)
	if !cmd.Flags().Changed("api-port") {
		c.APIPort = api
	}
	if !cmd.Flags().Changed("registry-port") {
		c.RegistryPort = registry
	}
	return err
}

// addShape adds the flags that say what the cluster is like.
func addShape(f *pflag.FlagSet, c *config.Cluster) {
	f.IntVar(&c.LinuxNodes, "linux-nodes", c.LinuxNodes, "Linux nodes, 1 to 9")
	f.IntVar(&c.WindowsNodes, "windows-nodes", c.WindowsNodes, "emulated Windows nodes, 0 to 40")
	f.StringVar(&c.LinuxKubelet, "linux-kubelet", c.LinuxKubelet,
		"kubelet of the Linux nodes: porthole, or upstream, to compare with")
	f.StringVar(&c.WindowsBuild, "windows-build", c.WindowsBuild,
		"Windows build of those nodes: 17763 (Server 2019), 20348 (2022), 26100 (2025); several with commas are taken in turn")
	f.StringVar(&c.Supervisor, "supervisor", c.Supervisor,
		"who starts the programs of Windows nodes: processes, the cluster's supervisor; services: the node's service manager, after porthole.exe join has set the node up, as on Windows")
	f.BoolVar(&c.WindowsKubeletOnly, "windows-kubelet-only", false,
		"Windows nodes run a kubelet and containerd.exe only, and are not Ready until HostProcess pods bring the pod network and kube-proxy")
	f.BoolVar(&c.WindowsFirewall, "windows-firewall", false,
		"Windows nodes drop what comes in, but for programs with a rule, as Windows Server does; makes the rules for our programs")
	f.StringVar(&c.WindowsMemory, "windows-memory", "",
		"memory of each Windows node, for example 4Gi; empty: that of the machine. Nothing is refused beyond it, but the kubelet evicts pods as it becomes scarce")

	f.DurationVar(&c.WindowsNICFlap, "windows-nic-flap", 0,
		"how long a Windows node has no link and no address when its first HNS network is made; Windows takes 1 to 10 s")
	f.StringVar(&c.WindowsNIC, "windows-nic", "",
		"second network card of Windows nodes, \"Ethernet 2\": SUBNET[,gateway=ADDRESS[,metric=N]], for example 10.98.0.0/24; with a gateway it has a default route")
	f.StringVar(&c.WindowsAdapter, "windows-adapter", "",
		"network card to which the pods' network of Windows nodes is bound, for example \"Ethernet 2\"; empty: the one with the node's address")
	f.StringVar(&c.Network, "network", c.Network,
		"how pods of different nodes reach each other: "+strings.Join(routes.Modes(), ", "))
	f.StringVar(&c.PodCIDR, "pod-cidr", c.PodCIDR,
		"range of all pods, of IPv4, or of IPv4 and behind a comma of IPv6, which gives pods, nodes and services both")
	f.IntVar(&c.NodeMask, "node-cidr-mask-size", 0,
		"length of a node's pod range of IPv4; 0: 24, or longer where --pod-cidr is too small for that")
	f.StringVar(&c.Listen, "listen", "",
		"address of this machine on which the API server and the image registry are reached; empty: 127.0.0.1")
	f.IntVar(&c.APIPort, "api-port", c.APIPort,
		"port of the API server on the address of --listen; with --name the next free one")
	f.IntVar(&c.RegistryPort, "registry-port", c.RegistryPort,
		"port of the image registry on the address of --listen; with --name the next free one")
}
