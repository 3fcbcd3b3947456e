// Package host is the command group for emulated Windows hosts: making one on its own, running programs on any, and
// looking into what it has.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/platform"
)

// Command is `porthole host`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "host",
		Short: "Make emulated Windows hosts, run Windows programs on them, look into them",
		Long: `Makes emulated Windows hosts on their own, and runs programs on any emulated host, also on the Windows nodes of a local
cluster. A host is a network namespace porthole-NAME, a C: and a Host Networking Service that moves real packets.`,
		Example: `  porthole host create h1 --build 26100
  porthole host run h1 -- ./hello.exe --flag
  porthole host hns h1 dump
  porthole host delete h1`,
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { platform.SetUmask(); return nil },
	}
	c.AddCommand(createCommand(), startCommand(), runCommand(), deleteCommand(), listCommand(), servicesCommand(),
		eventsCommand(), rebootCommand(),
		hnsCommand(), ctrCommand(), superviseCommand())
	for _, sub := range c.Commands() {
		if strings.Contains(sub.Use, "NAME") {
			sub.ValidArgsFunction = completeHosts
		}
	}
	return c
}

// common are the flags that most of the commands have.
// dir is --dir and output is --output.
type common struct{ dir, output string }

// withOutput is for commands that can print JSON.
func (o *common) flags(c *cobra.Command, withOutput bool) {
	c.Flags().StringVar(&o.dir, "dir", layout.DefaultDir, "state folder")
	if withOutput {
		c.Flags().StringVarP(&o.output, "output", "o", "", "json for all that is known")
	}
}

// store is all hosts of the state folder. It also checks --output.
func (o *common) store() (host.Store, error) {
	if o.output != "" && o.output != "json" {
		return host.Store{}, fmt.Errorf("-o %s: only json is known", o.output)
	}
	l, err := layout.New(o.dir)
	return host.Store{Dir: l.Dir, Bin: l.Bin}, err
}

// find is the host called name in the state folder.
func (o *common) find(name string) (host.Host, error) {
	s, err := o.store()
	if err != nil {
		return host.Host{}, err
	}
	return s.Get(name)
}

// change is find for a command that changes the host, which needs root to do what (a gerund).
func (o *common) change(what, name string) (host.Store, host.Host, error) {
	if err := needRoot(what); err != nil {
		return host.Store{}, host.Host{}, err
	}
	s, err := o.store()
	if err != nil {
		return s, host.Host{}, err
	}
	h, err := s.Get(name)
	return s, h, err
}

// needRoot returns an error that says what needs root; what is a gerund.
func needRoot(what string) error {
	if os.Geteuid() != 0 {
		return errors.New(what + " needs root (namespaces, mounts): run it with sudo")
	}
	return nil
}

// printJSON prints in the form of all commands with -o json: two blanks for each level.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// ctrCommand works on nodes of both systems.
func ctrCommand() *cobra.Command {
	var o common
	c := &cobra.Command{
		Use:     "ctr NAME containers|tasks|images|snapshots",
		Short:   "List what the container runtime of a cluster's node has",
		Long:    "Lists the ids of what the containerd of a cluster's node, Windows or Linux, has for Kubernetes: one per line.",
		Example: "  porthole host ctr win01 containers\n  porthole host ctr lin01 images -o json",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := o.find(args[0])
			if err != nil {
				return err
			}
			items, err := h.Inventory(c.Context(), args[1])
			if err != nil {
				return err
			}
			if o.output == "json" {
				return printJSON(c.OutOrStdout(), items)
			}
			for _, i := range items {
				fmt.Fprintln(c.OutOrStdout(), i.ID)
			}
			return nil
		},
	}

	o.flags(c, true)
	return c
}

// runDir holds the state of a host's processes.
func runDir(h host.Host) string { return filepath.Join(h.Dir, "run") }
