package host

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/host"
)

func runtimeCommand() *cobra.Command {
	var o common
	var want cri.Profile
	var reset bool
	c := &cobra.Command{
		Use:   "runtime NAME [--late-ends] [--no-stats POD,…] [--reset]",
		Short: "Make the container runtime of a host as slow and as faulty as containerd on Windows",
		Long: `Shows how the container runtime of a host behaves, and changes it. A change takes effect at once, also for running pods.

  --late-ends   the end of a container is seen 5 s after its start at the earliest, and a start that fails takes 5 s:
                containerd on Windows waits that long for a log pipe that only a pod's sandbox has
  --no-stats    pods (namespace/name, or * for all) whose sandboxes have no statistics, as while they start or stop; then
                the list of all statistics is an error too
  --reset       neither of the two, as after the host's creation`,
		Example: `  porthole host runtime win01
  porthole host runtime win01 --late-ends
  porthole host runtime win01 --no-stats default/iis-0 --late-ends=false
  porthole host runtime win01 --reset`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := o.find(args[0])
			if err != nil {
				return err
			}
			if h.OS != "windows" {
				return fmt.Errorf("host %s runs %s: only emulated Windows hosts have this runtime", h.Name, h.OS)
			}
			if h.Runtime != host.Light {
				return fmt.Errorf("host %s runs no runtime that can be changed: only nodes of `porthole up --windows-runtime %s` do", h.Name, host.Light)
			}
			now, err := changeRuntime(h.Dir, c.Flags(), want, reset)
			if err != nil {
				return err
			}
			return printRuntime(c.OutOrStdout(), now, o.output == "json")
		},
	}

	o.flags(c, true)
	c.Flags().BoolVar(&want.LateEnds, "late-ends", false, "see ends of containers 5 s after their start at the earliest")
	c.Flags().StringSliceVar(&want.NoStats, "no-stats", nil, "pods whose sandboxes have no statistics, by namespace/name; * for all, \"\" for none")
	c.Flags().BoolVar(&reset, "reset", false, "behave as after the host's creation")
	return c
}

// changeRuntime writes the profile of the host in dir if a flag asks for another, and returns the one that holds then. want has the values of
// the flags; with reset what was there before does not count.
func changeRuntime(dir string, given *pflag.FlagSet, want cri.Profile, reset bool) (now cri.Profile, err error) {
	if !reset {
		if now, err = cri.ReadProfile(dir); err != nil {
			return now, fmt.Errorf("%w (--reset writes a new one)", err)
		}
	}
	changed := reset
	if given.Changed("late-ends") {
		now.LateEnds, changed = want.LateEnds, true
	}
	if given.Changed("no-stats") {
		now.NoStats, changed = want.NoStats, true
	}

	if err := checkPods(now.NoStats); err != nil || !changed {
		return now, err
	}
	return now, now.Write(dir)
}

// checkPods returns an error for an element that is neither namespace/name nor *.
func checkPods(pods []string) error {
	for _, p := range pods {
		if namespace, name, ok := strings.Cut(p, "/"); p != "*" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")) {
			return fmt.Errorf("--no-stats %s: give a pod as namespace/name, or * for all", p)
		}
	}
	return nil
}

func printRuntime(out io.Writer, p cri.Profile, json bool) error {
	if json {
		return printJSON(out, p)
	}
	ends, stats := "at once", "of every pod"
	if p.LateEnds {
		ends = "5 s after the start at the earliest"
	}
	if len(p.NoStats) > 0 {
		stats = "missing of " + strings.Join(p.NoStats, ", ")
	}
	_, err := fmt.Fprintf(out, "ends of containers are seen %s\nstatistics: %s\n", ends, stats)
	return err
}
