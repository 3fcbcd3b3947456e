// Package status is the command that shows a node, on Windows, and a local cluster, on Linux.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/observe"
	"porthole.dev/porthole/cluster/status"
)

// Command is `porthole status`.
func Command() *cobra.Command {
	var dir, output string
	var watch bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show nodes, processes, services and routes of the local cluster",
		Example: "  porthole status\n  porthole status -w\n  porthole status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: only json is known", output)
			}
			l, err := layout.New(dir)
			if err != nil {
				return err
			}
			if watch {
				read := func(ctx context.Context) (*status.Status, error) { return observe.Status(ctx, l) }
				tick := time.NewTicker(again)
				defer tick.Stop()
				return follow(cmd.Context(), read, output, cmd.OutOrStdout(), tick.C)
			}
			s, err := observe.Status(cmd.Context(), l)
			if err != nil {
				return err
			}
			return show(s, output, cmd.OutOrStdout())
		},
	}

	program.StateDir(cmd.Flags(), &dir, layout.DefaultDir, "state folder")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for all that is known")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false,
		"show it again whenever it changes, until Ctrl+C; with -o json one document a line")
	return cmd
}

func show(s *status.Status, output string, out io.Writer) error {
	if output != "json" {
		return s.Print(out)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(s)
}

// again is how often the cluster is looked at while its status is watched.
const again = time.Second

// follow reads the status of the cluster now and at each tick, until ctx ends, and prints it when its text differs
// from the last one.
func follow(ctx context.Context, read func(context.Context) (*status.Status, error), output string, out io.Writer,
	tick <-chan time.Time) error {
	shown := ""
	for {
		s, err := read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}

		var text strings.Builder
		if output == "json" {
			err = json.NewEncoder(&text).Encode(s)
		} else {
			err = s.Print(&text)
		}
		if err != nil {
			return err
		}
		if text.String() != shown {
			shown = text.String()
			if output != "json" {
				fmt.Fprint(out, program.ClearScreen(out))
			}
			if _, err := io.WriteString(out, shown); err != nil {
				return err
			}
		}

		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}
