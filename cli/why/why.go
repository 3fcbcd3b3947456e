// Package why is the command that says why a pod, a service or a node is as it is.
package why

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/origin"
	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/web/model"
)

// notRight is the exit code if the object is not as it should be.
const notRight = program.ExitCode(1)

var kinds = []string{"pod", "service", "node"}

// Command is `porthole why`.
func Command() *cobra.Command {
	var from origin.Flags
	var output string
	c := &cobra.Command{
		Use:   "why [pod|service|node] NAME",
		Short: "Say why a pod, a service or a node is not right: what it waits for, since when, what was tried, what to do",
		Long: `Follows what has to happen for one object, step by step, and names the first that is not done: what it waits for, since when, what was tried, and
which command shows more. It only reads.

Pods and services are NAMESPACE/NAME; without a namespace they are in "default". Without a kind the name of a node, a pod or a service is looked for.

Exit code: 0 it is right; 1 it is not, or it is not known; 2 nothing could be found out.`,
		Example: "  porthole why shop/cart-7f\n  porthole why service shop/cart -o json\n  porthole why node win01 --kubeconfig admin.conf",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			kind, name, err := split(args)
			if err != nil {
				return program.Misused(err)
			}
			if output != "text" && output != "json" {
				return program.Misused(fmt.Errorf("-o %s: text and json are known", output))
			}
			facts, err := from.Once(c.Context())
			var chain model.Chain
			if err == nil {
				chain, err = model.Why(facts, kind, name, time.Now())
			}
			if err != nil {
				fmt.Fprintln(c.ErrOrStderr(), "porthole:", err)
				return program.ExitCode(2)
			}
			return show(c.OutOrStdout(), chain, output, time.Now())
		},
	}

	from.AddTo(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

func split(args []string) (kind, name string, err error) {
	if len(args) == 1 {
		return "", args[0], nil
	}
	if !slices.Contains(kinds, args[0]) {
		return "", "", errors.New("the kind is pod, service or node, not " + args[0])
	}
	return args[0], args[1], nil
}

func show(out io.Writer, c model.Chain, output string, now time.Time) error {
	var err error
	if output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(c)
	} else {
		err = Print(out, c, now)
	}
	if err == nil && c.State != model.Right {
		return notRight
	}
	return err
}

var marks = map[model.State]string{model.Right: "+", model.Making: ".", model.Wrong: "!", model.Unknown: "?"}

// Print writes a chain for people. now is for how long ago something was.
func Print(out io.Writer, c model.Chain, now time.Time) error {
	fmt.Fprintf(out, "%s %s is %s: %s\n\n", c.Kind, c.Name, words[c.State], c.Text)
	for _, s := range c.Steps {
		mark := marks[s.State]
		if s.Waits {
			mark = " "
		}
		fmt.Fprintf(out, "%s %-30s", mark, s.Name)
		switch {
		case s.Waits:
			fmt.Fprint(out, "waits for the above")
		case s.State == model.Right && !s.To.IsZero():
			fmt.Fprintf(out, "%s  %s", s.To.Format(time.RFC3339), s.Text)
		default:
			fmt.Fprint(out, s.Text)
		}
		if s.State != model.Right && !s.Waits && !s.From.IsZero() {
			fmt.Fprintf(out, " (for %s)", now.Sub(s.From).Round(time.Second))
		}
		fmt.Fprintln(out)

		if s.Tried != "" {
			fmt.Fprintf(out, "    tried: %s\n", s.Tried)
		}
		if s.State != model.Right {
			for _, do := range s.Do {
				fmt.Fprintf(out, "    see: %s\n", do)
			}
		}
	}
	return printSeen(out, c.Seen, now)
}

var words = map[model.State]string{model.Right: "right", model.Making: "being made", model.Wrong: "wrong",
	model.Unknown: "not known"}

// eventsShown bounds the events, newest first kept.
const eventsShown = 8

func printSeen(out io.Writer, seen []model.Happening, now time.Time) error {
	if len(seen) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nits last events:")
	for _, e := range seen[max(0, len(seen)-eventsShown):] {
		times := ""
		if e.Count > 1 {
			times = fmt.Sprintf(" (%d times)", e.Count)
		}
		if _, err := fmt.Fprintf(out, "  %8s ago  %s: %s%s\n", now.Sub(e.At).Round(time.Second), e.Reason, e.Text,
			times); err != nil {
			return err
		}
	}
	return nil
}
