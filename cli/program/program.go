// Package program runs a command line and turns its error into an exit code and a line on standard error.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Root returns the command that has all others as subcommands. It prints nothing itself.
func Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "porthole",
		Short:         "Windows Server containers on Kubernetes: every part that a node needs",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see `%s --help`)", err, c.CommandPath())}
	})
	root.AddCommand(commands...)
	return root
}

// usageError marks mistakes in the command line itself.
type usageError struct{ error }

// Run runs a command line until it ends or is interrupted. It returns the exit code: 0 done, 1 failed, 2 misused.
func Run(root *cobra.Command, args ...string) int {
	root.SetArgs(args)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "porthole:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}
