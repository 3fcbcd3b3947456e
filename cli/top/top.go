// Package top is the command that shows what goes on in a cluster now: pods of both systems, calls to HNS, services
// that change.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/origin"
	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
)

// Command is `porthole top`.
func Command() *cobra.Command {
	var from origin.Flags
	var every time.Duration
	var rounds int
	c := &cobra.Command{
		Use:   "top",
		Short: "Show pods of both systems, calls to HNS and services that change, live",
		Long: `Shows for each node how many pods are right, being made and wrong, its routes and frontends, and how many calls to HNS it makes per second and how
long they take; below, the services and pods that are not right. It shows all again and again until Ctrl+C; it only reads.`,
		Example: "  porthole top\n  porthole top --rounds 1\n  porthole top --kubeconfig admin.conf --interval 5s",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < time.Second {
				return program.Misused(errors.New("--interval: at least 1s"))
			}
			return run(c.Context(), c.OutOrStdout(), from, every, rounds)
		},
	}

	from.AddTo(c.Flags())
	c.Flags().DurationVar(&every, "interval", 2*time.Second, "how often it is shown")
	c.Flags().IntVar(&rounds, "rounds", 0, "how often it is shown in all; 0: until Ctrl+C")
	return c
}

func run(ctx context.Context, out io.Writer, from origin.Flags, every time.Duration, rounds int) error {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	var collector *collect.Collector
	o, err := from.Open(func() { collector.Changed() })
	if err != nil {
		return err
	}
	collector = collect.New(o.Options)
	tasks.Go(func() { o.Run(ctx) })
	if _, err := collector.Once(ctx); err != nil {
		return err
	}
	defer collector.Open()() // asked as often as for a page
	tasks.Go(func() { collector.Run(ctx) })

	tick := time.NewTicker(every)
	defer tick.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if rounds != 1 {
			fmt.Fprint(out, program.ClearScreen(out))
		}
		now := time.Now()
		if err := Print(out, model.Build(collector.Facts(), now), collector.Samples(), now); err != nil {
			return err
		}
		if round == rounds {
			return nil
		}
	}
}

// tally counts pods by state.
type tally map[model.State]int

func (t tally) String() string {
	return fmt.Sprintf("%d\t%d\t%d", t[model.Right], t[model.Making], t[model.Wrong]+t[model.Unknown])
}

// Print writes one picture.
func Print(out io.Writer, s model.Snapshot, samples map[string][]model.Sample, now time.Time) error {
	pods, systems := map[string]tally{}, map[string]tally{}
	systemOf := map[string]string{}
	for _, n := range s.Nodes {
		systemOf[n.Name] = n.OS
		pods[n.Name] = tally{}
	}
	for _, p := range s.Pods {
		for _, t := range []struct {
			in  map[string]tally
			key string
		}{{pods, p.Node}, {systems, systemOf[p.Node]}} {
			if t.in[t.key] == nil {
				t.in[t.key] = tally{}
			}
			t.in[t.key][p.State]++
		}
	}

	fmt.Fprintf(out, "%s, %s\n", s.Cluster.Name, now.Format(time.TimeOnly))
	if s.Cluster.API.Error != "" {
		fmt.Fprintf(out, "the API server does not answer since %s: %s\n", s.Cluster.API.Since.Format(time.RFC3339),
			s.Cluster.API.Error)
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nPODS\tRIGHT\tMADE\tWRONG")
	for _, system := range []string{"linux", "windows", ""} {
		if t := systems[system]; t != nil {
			where := "on " + system + " nodes"
			if system == "" {
				where = "on no node"
			}
			fmt.Fprintf(w, "%s\t%s\n", where, t)
		}
	}

	fmt.Fprintln(w, "\nNODE\tRIGHT\tMADE\tWRONG\tROUTES\tFRONTENDS\tHNS CALLS/S\tFAILED/S\tMS EACH")
	for _, n := range s.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", n.Name, pods[n.Name],
			of(n.Routes.Part, n.Routes.Present, n.Routes.Wanted), of(n.Proxy.Part, n.Proxy.Programmed, n.Proxy.Wanted),
			calls(samples[n.Name]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printWrong(out, s, now)
}

func of(p model.Part, have, want int) string {
	switch {
	case p.None:
		return "-"
	case !p.Known:
		return "?"
	case p.Error != "":
		return fmt.Sprintf("%d/%d (old)", have, want)
	}
	return fmt.Sprintf("%d/%d", have, want)
}

// calls sums the last rates of all kinds of calls.
func calls(samples []model.Sample) string {
	if len(samples) < 2 {
		return "-\t-\t-"
	}
	var rate, failed, took float64
	for _, p := range model.CallRates("", samples[len(samples)-2:]) {
		rate += p.PerSecond
		failed += p.Failed
		took += p.PerSecond * p.Took
	}
	if rate == 0 {
		return "0.0\t0.0\t-"
	}
	return fmt.Sprintf("%.1f\t%.1f\t%.1f", rate, failed, took/rate)
}

// shown bounds the lines of what is not right.
const shown = 15

func printWrong(out io.Writer, s model.Snapshot, now time.Time) error {
	var lines []string
	add := func(kind, name string, p model.Problem) {
		long := ""
		if !p.Since.IsZero() {
			long = " (" + now.Sub(p.Since).Round(time.Second).String() + ")"
		}
		lines = append(lines, fmt.Sprintf("%-7s %s %s: %s%s", p.State, kind, name, p.Text, long))
	}
	for _, n := range s.Nodes {
		for _, p := range n.Problems {
			add("node", n.Name, p)
		}
	}
	for _, v := range s.Services {
		for _, p := range v.Problems {
			add("service", v.Key, p)
		}
	}
	for _, p := range s.Pods {
		if p.Problem != nil {
			add("pod", p.Key, *p.Problem)
		}
	}

	if len(lines) == 0 {
		_, err := fmt.Fprintln(out, "\nnothing is wrong or being made")
		return err
	}
	fmt.Fprintln(out)
	for i, l := range lines {
		if i == shown {
			l = fmt.Sprintf("and %d more", len(lines)-shown)
		}
		if _, err := fmt.Fprintln(out, l); err != nil || i == shown {
			return err
		}
	}
	return nil
}
