// Package cli turns flags into option structs, calls one package and prints its result. One folder per command.
package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/program"
)

// Main runs the command line and returns the exit code of program.Run. If the program file is called kubelet or
// kube-proxy, with or without .exe, it runs that subcommand: installers can keep upstream's names and flags. It
// returns 4 if there is a folder "root" beside the program (make root) and that cannot be used; then nothing was done.
func Main(args []string) int {
	rest := args[1:]
	switch name := strings.TrimSuffix(strings.ToLower(filepath.Base(args[0])), ".exe"); name {
	case "kubelet", "kube-proxy":
		rest = append([]string{name}, rest...)
	}
	if err := enterRoot(rest); err != nil {
		fmt.Fprintln(os.Stderr, "porthole:", err)
		return 4
	}
	alone(rest)
	return program.Run(Commands(), rest...)
}

// Commands returns the root of all commands of this system, with new flags.
func Commands() *cobra.Command { return program.Root(append(nodeCommands(), localCommands()...)...) }
