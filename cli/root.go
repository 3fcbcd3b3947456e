// Package cli turns flags into option structs, calls one package and prints its result. One folder per command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// ExitError carries the exit code of a program that a command ran, for example in `porthole host run`.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode makes cli.Main end with this code and print nothing.
func (e ExitError) ExitCode() int { return e.Code }

// Main runs the command line and returns the exit code: 0 done, 1 failed, 2 misused. A program file called kubelet or
// kube-proxy (with or without .exe) is that subcommand, so that installers can keep upstream's names and flags.
func Main(args []string) int {
	root := newRoot()
	rest := args[1:]
	switch name := strings.TrimSuffix(strings.ToLower(filepath.Base(args[0])), ".exe"); name {
	case "kubelet", "kube-proxy":
		rest = append([]string{name}, rest...)
	}
	root.SetArgs(rest)
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

// usageError marks mistakes in the command line itself.
type usageError struct{ error }

func newRoot() *cobra.Command {
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
	root.AddCommand(nodeCommands()...)
	root.AddCommand(localCommands()...)
	return root
}
