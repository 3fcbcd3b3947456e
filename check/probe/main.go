package probe

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"porthole.dev/porthole/check"
)

// Main is a program of one probe: it prints the report as JSON on standard output and each line on standard error as
// it comes. It returns the exit code: 0 everything was asked, 1 the probe ended early or left something behind, 2
// wrong usage.
func Main(args []string, run func(context.Context, Options) (check.Report, error)) int {
	var o Options
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.BoolVar(&o.Changes, "allow-changes", false, "make networks, files and pods on this machine, and remove them")
	f.BoolVar(&o.Leave, "leave", false, "leave what the probe of HNS made, for a run after a reboot, which removes it")
	f.BoolVar(&o.RestartHNS, "restart-hns", false, "stop and start the service hns on the way")
	f.StringVar(&o.Runtime.Endpoint, "runtime-endpoint", DefaultEndpoint, "address of the container runtime's CRI")
	f.StringVar(&o.Runtime.Image, "image", "",
		"Windows image that fits this host, for the pods of the probe; empty: no pods")
	if err := f.Parse(args[1:]); err != nil {
		return 2
	}
	// Lines go to standard error as they come, since a probe may hang.
	o.Progress = func(l check.Line) { fmt.Fprintln(os.Stderr, l) }

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := run(ctx, o)
	// The report is printed even if the probe ended early: it has what was asked until then.
	if printErr := check.PrintJSON(os.Stdout, report); err == nil {
		err = printErr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		return 1
	}
	for _, left := range report.Left {
		fmt.Fprintln(os.Stderr, "probe: left behind:", left)
	}
	if len(report.Left) > 0 {
		return 1
	}
	return 0
}

// DefaultEndpoint is where containerd listens on Windows unless it is told otherwise.
const DefaultEndpoint = "npipe:////./pipe/containerd-containerd"
