package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/emulator/host"
)

// profiles are the profiles of a reboot: what HNS keeps and loses that it would not by default (see
// serve.RebootRequest).
var profiles = map[string]serve.RebootRequest{
	"listed":  {Keep: []string{"Namespace", "Attachment", "Rule", "Forwarding"}},
	"default": {},
	"all":     {Lose: []string{"Network", "Endpoint", "LoadBalancer", "SdnRoute"}},
}

// rebootCommand cuts the power of hosts in a cluster: those have no services that could be told.
func rebootCommand() *cobra.Command {
	var f rebootFlags
	c := &cobra.Command{
		Use:   "reboot NAME",
		Short: "Reboot a host, with what that does to HNS, addresses and services",
		Long: `Reboots a host, also a Windows node of a local cluster. Its Windows services are told and stop in their order (--power-cut: none
is); all programs and containers end; routes that programs made are gone; the registry has another BootId; and HNS keeps or
loses objects as --profile, --keep and --lose say. Then its processes and automatic services start again. The nodes of a local
cluster have no services: their programs end as if the power were cut, and the cluster's supervisor starts them again. The command
returns when they may start, and with --dhcp-late when the host has its address.

Profiles, none of them verified on real Windows: ` + "`listed`" + ` keeps everything; ` + "`default`" + ` lists all objects and loses namespaces, the
places of endpoints in them, the rules behind load balancers, and that interfaces forward packets; ` + "`all`" + ` loses every object.
--keep and --lose name: ` + strings.Join(serve.RebootThings(), ", ") + `.`,
		Example: `  porthole host reboot win01
  porthole host reboot h1 --profile all --dhcp-late 20s
  porthole host reboot win01 --keep Rule --lose RemoteEndpoint -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}

	f.flags(c, true)
	c.Flags().StringVar(&f.profile, "profile", "default", "what HNS loses: listed, default or all")
	c.Flags().StringSliceVar(&f.reboot.HNS.Keep, "keep", nil, "what HNS keeps although the profile loses it")
	c.Flags().StringSliceVar(&f.reboot.HNS.Lose, "lose", nil, "what HNS loses although the profile keeps it")
	c.Flags().BoolVar(&f.reboot.PowerCut, "power-cut", false,
		"end all programs at once, without stopping services first")
	c.Flags().DurationVar(&f.late, "dhcp-late", 0, "how long after its programs start the host gets its address")
	program.Values(c, "profile", slices.Sorted(maps.Keys(profiles))...)
	program.Values(c, "keep", serve.RebootThings()...)
	program.Values(c, "lose", serve.RebootThings()...)
	return c
}

// rebootFlags are what the command line of `porthole host reboot` says.
type rebootFlags struct {
	common
	reboot  host.RebootOptions
	profile string
	late    time.Duration
}

// run reboots the host of that name, waits until it has its address, and prints what the reboot did.
func (f *rebootFlags) run(c *cobra.Command, name string) error {
	base, known := profiles[f.profile]
	if !known {
		return fmt.Errorf("--profile %s: known are %s", f.profile,
			strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))
	}
	// What the user names wins over the profile.
	f.reboot.HNS = merge(base, f.reboot.HNS)
	f.reboot.Late = f.late > 0
	s, h, err := f.change("rebooting a host", name)
	if err != nil {
		return err
	}
	done, err := reboot(c.Context(), s, h, f.reboot)
	if err != nil {
		return err
	}

	// The host has no address while it waits, as with a slow DHCP server.
	if f.late > 0 {
		select {
		case <-c.Context().Done():
		case <-time.After(f.late):
		}
	}
	if err := done.Arrive(); err != nil {
		return err
	}
	return printReboot(c.OutOrStdout(), h, done, f.output)
}

// reboot reboots a host while its supervisor starts none of its processes.
func reboot(ctx context.Context, s host.Store, h host.Host, o host.RebootOptions) (host.Rebooted, error) {
	if h.OS != "windows" {
		return host.Rebooted{}, fmt.Errorf("host %s is a Linux node: only Windows hosts can be rebooted", h.Name)
	}
	dir, node := runDir(h), ""
	if !h.Standalone {
		dir = layout.Layout{Dir: s.Dir}.RunDir()
		node = h.Name
	}
	// The supervisor is held back, because it would start what the reboot ends.
	release, err := supervise.Hold(ctx, dir, node)
	if err != nil {
		return host.Rebooted{}, fmt.Errorf("rebooting host %s: %w", h.Name, err)
	}
	defer release()
	return h.Reboot(ctx, o)
}

// merge adds what was asked for to a profile; the former wins.
func merge(base, asked serve.RebootRequest) serve.RebootRequest {
	without := func(list, others []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(a string) bool {
			return slices.ContainsFunc(others, func(b string) bool { return strings.EqualFold(a, b) })
		})
	}
	return serve.RebootRequest{Keep: append(without(base.Keep, asked.Lose), asked.Keep...),
		Lose: append(without(base.Lose, asked.Keep), asked.Lose...)}
}

// printReboot prints what was stopped and lost, and the new boot.
func printReboot(out io.Writer, h host.Host, r host.Rebooted, output string) error {
	if output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	for _, e := range r.Services {
		fmt.Fprintf(out, "service %s: %s after %v\n", e.Service, e.Phase, e.Took.Round(time.Millisecond))
	}
	for _, thing := range slices.Sorted(maps.Keys(r.Lost)) {
		fmt.Fprintf(out, "HNS lost: %d %s\n", r.Lost[thing], thing)
	}
	_, err := fmt.Fprintf(out, "host %s has booted: BootId %d\n", h.Name, r.BootID)
	return err
}
