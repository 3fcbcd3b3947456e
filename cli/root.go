// Package cli turns flags into option structs, calls one package and prints its result. One folder per command.
package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/cli/program"
)

// ExitError carries the exit code of a program that a command ran, for example in `porthole host run`.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode makes cli.Main end with this code and print nothing.
func (e ExitError) ExitCode() int { return e.Code }

// Main runs the command line and returns the exit code of program.Run. If the program file is called kubelet or kube-proxy, with
// or without .exe, it runs that subcommand: installers can keep upstream's names and flags.
func Main(args []string) int {
	rest := args[1:]
	switch name := strings.TrimSuffix(strings.ToLower(filepath.Base(args[0])), ".exe"); name {
	case "kubelet", "kube-proxy":
		rest = append([]string{name}, rest...)
	}
	return program.Run(program.Root(append(nodeCommands(), localCommands()...)...), rest...)
}
