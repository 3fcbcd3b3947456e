// Package cli turns flags into option structs, calls one package and prints its result. One folder per command.
package cli

import (
	"path/filepath"
	"strings"

	"porthole.dev/porthole/cli/program"
)

// Main runs the command line and returns the exit code of program.Run. If the program file is called kubelet or kube-proxy, with
// or without .exe, it runs that subcommand: installers can keep upstream's names and flags.
func Main(args []string) int {
	rest := args[1:]
	switch name := strings.TrimSuffix(strings.ToLower(filepath.Base(args[0])), ".exe"); name {
	case "kubelet", "kube-proxy":
		rest = append([]string{name}, rest...)
	}
	alone(rest)
	return program.Run(program.Root(append(nodeCommands(), localCommands()...)...), rest...)
}
