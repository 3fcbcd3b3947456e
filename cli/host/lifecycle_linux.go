package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/ipstack"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// createFlags are the flags of `porthole host create`.
// The fields are as the user wrote them; options checks and parses them.
type createFlags struct {
	common
	build        int
	address, dns string
	memory       string
	firewall     bool
	profile      string
	nics         []string
	flap         time.Duration
	runtime      string
}

// noRuntime is the value of --runtime for a host without a container runtime.
const noRuntime = "none"

// createCommand has all flags of a host; what a cluster's hosts have is in the cluster's
// configuration.
func createCommand() *cobra.Command {
	var f createFlags
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an emulated Windows host and start it",
		Long: `Makes an emulated Windows host and starts it. It runs until 'porthole host delete'.

Its first network card is "Ethernet", in 10.99.0.0/24 with a default route. Each --nic gives it another one ("Ethernet 2", …) in a
network of its own, which hosts with a card in the same subnet share.

With --dns the host gets DNS servers together with the address of "Ethernet", as from DHCP; adapters without one show the addresses
fec0:0:0:ffff::1 to ::3, as Windows' do. 'porthole host hns NAME dns' changes them while the host runs. They are what ipconfig and the
programs that ask for them see: names are still resolved as on this machine.

The host runs the container runtime of a Windows node as it ships, containerd.exe and runhcs, unless --runtime is none. It
listens at \\.\pipe\containerd-containerd; its configuration is C:\Program Files\containerd\config.toml. It is the service
"containerd" of the host (sc.exe, 'porthole host services NAME') and logs to C:\var\log\containerd.log.

Profiles of HNS (--hns-profile):
  ` + strings.Join(hnsd.ProfileTexts(), "\n  "),
		Example: `  porthole host create h1
  porthole host create h2 --build 26100 --address 10.99.0.150
  porthole host create h3 --nic 10.98.0.5/24                                  # a storage network without a way out
  porthole host create h4 --nic 10.98.0.6/24,gateway=10.98.0.1,metric=10      # and a second default route
  porthole host create h5 --hns-profile ws2022-unkind
  porthole host create h6 --dns none && porthole host hns h6 dns 10.99.0.53   # a DNS server that comes late
  porthole host create h7 --runtime none                                      # without containers it is up sooner
  porthole host create h8 && porthole host ctr h8 images`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.create(c.Context(), args[0], c.OutOrStdout()) },
	}

	f.flags(c, false)
	c.Flags().IntVar(&f.build, "build", 20348, "Windows build: 17763 (Server 2019), 20348 (2022), 26100 (2025)")
	c.Flags().StringVar(&f.address, "address", "", "address in 10.99.0.0/24 (default: the first free one from .101 on)")
	c.Flags().StringArrayVar(&f.nics, "nic", nil,
		"another network card: ADDRESS/LENGTH[,gateway=ADDRESS[,metric=N]]; with a gateway it has a default route; may be repeated")
	c.Flags().DurationVar(&f.flap, "nic-flap", 0,
		"how long a network card has no link and no addresses when the first HNS network on it is made, or the last one deleted; Windows takes 1 to 10 s")
	c.Flags().StringVar(&f.dns, "dns", serve.DNSServers(nil).String(),
		"DNS servers that the host gets with its address: addresses separated by commas, none, or machine for those of this machine's resolv.conf")
	c.Flags().StringVar(&f.memory, "memory", "",
		"memory that the host's programs see, for example 4Gi; empty: that of the machine")
	c.Flags().StringVar(&f.runtime, "runtime", host.ContainerdExe,
		"container runtime of the host: "+host.ContainerdExe+", or "+noRuntime)
	c.Flags().BoolVar(&f.firewall, "firewall", false,
		"drop connections to the host that no firewall rule allows, as Windows Server does (\"porthole.exe firewall add\" makes rules)")
	c.Flags().StringVar(&f.profile, "hns-profile", "", "HNS to be, by name, instead of the build's (see above)")
	program.Values(c, "build", "17763", "20348", "26100")
	program.Values(c, "hns-profile", hnsd.ProfileNames()...)
	program.Values(c, "runtime", host.ContainerdExe, noRuntime)
	return c
}

// create makes the host and starts it. A host that does not start is removed.
func (f *createFlags) create(ctx context.Context, name string, out io.Writer) error {
	if err := needRoot("making a host"); err != nil {
		return err
	}
	o, err := f.options(name)
	if err != nil {
		return err
	}
	o.Progress = progress(out)
	s, err := f.store()
	if err != nil {
		return err
	}

	h, err := s.Create(ctx, o)
	if err != nil {
		return err
	}
	err = start(ctx, s, h)
	if err == nil {
		err = awaitRuntime(ctx, h, out)
	}
	if err != nil {
		return errors.Join(err, remove(s, h))
	}
	return printReady(out, h)
}

// options returns what the flags ask for. An error names the flag.
func (f *createFlags) options(name string) (o host.CreateOptions, err error) {
	o = host.CreateOptions{Name: name, Build: f.build, Firewall: f.firewall, HNSProfile: f.profile, NICFlap: f.flap,
		Runtime: f.runtime}
	if f.runtime == noRuntime {
		o.Runtime = ""
	}
	if f.address != "" {
		if o.Address, err = netip.ParseAddr(f.address); err != nil {
			return o, fmt.Errorf("--address %s: not an IP address", f.address)
		}
	}
	if o.DNS, err = ipstack.ParseDNS(f.dns); err != nil {
		return o, fmt.Errorf("--dns %s: %w", f.dns, err)
	}
	if o.Memory, err = host.ParseMemory(f.memory); err != nil {
		return o, fmt.Errorf("--memory %s: %w", f.memory, err)
	}
	for _, text := range f.nics {
		card, err := lab.ParseCard(text)
		if err != nil {
			return o, fmt.Errorf("--nic %s: %w", text, err)
		}
		o.Cards = append(o.Cards, card)
	}
	return o, nil
}

// startCommand prepares anew what the machine lost when it was shut down.
func startCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:     "start NAME",
		Short:   "Start a host again, for example after the machine was",
		Long:    "Starts a host that was made with `porthole host create` again. On a running host it changes nothing.",
		Example: "  porthole host start h1",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, h, err := o.change("starting a host", args[0])
			if err != nil {
				return err
			}
			if !h.Standalone {
				return fmt.Errorf("host %s belongs to a cluster: `porthole up` starts it", h.Name)
			}
			if err := s.Prepare(c.Context(), h, progress(c.OutOrStdout())); err != nil {
				return fmt.Errorf("starting host %s: %w", h.Name, err)
			}
			if err := start(c.Context(), s, h); err != nil {
				return err
			}
			if err := awaitRuntime(c.Context(), h, c.OutOrStdout()); err != nil {
				return err
			}
			return printReady(c.OutOrStdout(), h)
		},
	}

	o.flags(c, false)
	return c
}

func deleteCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Stop a host and remove everything of it",
		Example: "  porthole host delete h1",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, h, err := o.change("removing a host", args[0])
			if err != nil {
				return err
			}
			if err := remove(s, h); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "host %s removed\n", h.Name)
			return err
		},
	}
	o.flags(c, false)
	return c
}

// progress prints each step as it begins.
func progress(out io.Writer) func(string) {
	return func(what string) { fmt.Fprintln(out, what) }
}

func printReady(out io.Writer, h host.Host) error {
	_, err := fmt.Fprintf(out, "host %s is ready: Windows build %d, address %s, network namespace %s\n", h.Name,
		h.Build, h.Address, h.Netns)
	return err
}

// processes of a host on its own; a pure function of its arguments.
func processes(s host.Store, h host.Host, tools wine.Tools) []supervise.Process {
	var list []supervise.Process
	listens := map[string]supervise.Condition{}
	for _, p := range h.Processes(tools, filepath.Join(s.Bin, "porthole")) {
		// A process that has to wait for another one waits for the address at which that listens.
		made := supervise.Process{Name: p.Name, Path: p.Path, Args: p.Args, Env: p.Env, Follows: p.Follows,
			Before: p.Before,
			Netns:  platform.NetnsPath(h.Netns), Log: filepath.Join(h.Dir, "logs", p.Name+".log"), MakesBox: p.MakesBox}
		if p.Box {
			made.Box, made.Dir = h.Dir, h.Prefix().DriveC()
		}
		if p.After != "" {
			made.WaitFor = []supervise.Condition{listens[p.After]}
		}
		list = append(list, made)
		listens[p.Name] = supervise.Condition{TCP: p.Listens, Netns: platform.NetnsPath(h.Netns)}
	}
	return list
}

// supervisorOptions have the supervisor start as a hidden command of this program.
func supervisorOptions(s host.Store, h host.Host) supervise.Options {
	return supervise.Options{RunDir: runDir(h), Log: filepath.Join(h.Dir, "logs", "supervisor.log"),
		Self: []string{filepath.Join(s.Bin, "porthole"), "host", "supervise", "--dir", s.Dir, h.Name}}
}

// start starts the host's supervisor if none runs, and returns when its processes do their work.
func start(ctx context.Context, s host.Store, h host.Host) error {
	tools, err := s.Wine(ctx)
	if err != nil {
		return err
	}
	// A supervisor that runs already has the processes; this only waits for them.
	if active, _ := supervise.Supervisors(runDir(h)); active.PID == 0 {
		if err := supervise.WriteProcesses(runDir(h), processes(s, h, tools)); err != nil {
			return fmt.Errorf("starting host %s: %w", h.Name, err)
		}
		if _, err := supervise.Spawn(supervisorOptions(s, h)); err != nil {
			return fmt.Errorf("starting host %s: %w", h.Name, err)
		}
	}

	waits := []supervise.Condition{
		{TCP: wire.HNSAddress, Netns: platform.NetnsPath(h.Netns)},
		{Path: control.Socket(h.Dir), Dial: true},
	}

	// slow.Limit stretches limits on machines that are slow.
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(30*time.Second))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for len(waits) > 0 && waits[0].Holds() {
			waits = waits[1:]
		}
		if len(waits) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("starting host %s: waiting for its HNS at %s: %w (see %s)", h.Name, waits[0], ctx.Err(),
				filepath.Join(h.Dir, "logs"))
		case <-tick.C:
		}
	}
}

// runtimeLimit is how long a host's container runtime may take until it answers: two seconds alone.
const runtimeLimit = time.Minute

// awaitRuntime returns when the host's container runtime answers, if it has one.
func awaitRuntime(ctx context.Context, h host.Host, out io.Writer) error {
	if h.Runtime == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(runtimeLimit))
	defer cancel()
	if err := h.RegisterRuntime(ctx); err != nil {
		return err
	}
	if err := h.AwaitRuntime(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s serves %s\n", h.Runtime, host.RuntimePipe)
	return err
}

// remove stops the processes of a host on its own and removes it.
func remove(s host.Store, h host.Host) error {
	if h.Standalone {
		if err := supervise.Shutdown(runDir(h), slow.Limit(3*time.Second)); err != nil {
			return fmt.Errorf("stopping host %s: %w", h.Name, err)
		}
	}
	return s.Remove(h)
}

// superviseCommand is what keeps a host's processes running.
func superviseCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use: "supervise NAME", Short: "Keep the processes of a host running", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := o.store()
			if err != nil {
				return err
			}
			h, err := s.Get(args[0])
			if err != nil {
				return err
			}
			return supervise.Run(c.Context(), supervisorOptions(s, h))
		},
	}
	o.flags(c, false)
	return c
}

// listed is a host with its processes, as `list` shows it.
type listed struct {
	host.Host
	Processes []supervise.State `json:"processes"`
}

// listCommand shows hosts of a cluster beside those on their own.
func listCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:     "list",
		Short:   "List hosts, those of a cluster included",
		Example: "  porthole host list\n  porthole host list -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := o.store()
			if err != nil {
				return err
			}
			hosts, err := s.List()
			if err != nil {
				return err
			}
			list := []listed{}
			for _, h := range hosts {
				list = append(list, listed{h, hostStates(s, h)})
			}
			if o.output == "json" {
				return printJSON(c.OutOrStdout(), list)
			}
			return printHosts(c.OutOrStdout(), list)
		},
	}

	o.flags(c, true)
	return c
}

// hostStates returns the processes of a host, regardless of who supervises them.
func hostStates(s host.Store, h host.Host) []supervise.State {
	states := []supervise.State{}
	dir := runDir(h)
	if !h.Standalone {
		dir = layout.Layout{Dir: s.Dir}.RunDir()
	}
	all, err := supervise.States(dir)
	if err != nil {
		return states // never started
	}
	for _, p := range all {
		if h.Standalone || p.Node == h.Name {
			states = append(states, p)
		}
	}
	return states
}

// printHosts shows "-" for what a host does not have, such as the build of a Linux node.
func printHosts(out io.Writer, list []listed) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tOS\tBUILD\tADDRESS\tNETNS\tOF\tPROCESSES")
	for _, h := range list {
		build := "-"
		address := "-"
		of := "cluster"
		running := 0

		if h.Build > 0 {
			build = strconv.Itoa(h.Build)
		}
		if h.Address.IsValid() {
			address = h.Address.String()
		}
		if h.Standalone {
			of = "itself"
		}
		for _, p := range h.Processes {
			if p.Phase == "running" {
				running++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d of %d running\n", h.Name, h.OS, build, address, h.Netns, of, running,
			len(h.Processes))
	}
	return w.Flush()
}
