package cli

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"porthole.dev/porthole/cli/program"
)

// alone turns this process into the program porthole-routes if the command line is one for it and it lies beside this program: the agent
// then has only a part of the code in memory (ADR 2). It returns if not. Clusters are read by this program only.
func alone(args []string) {
	if len(args) == 0 || args[0] != "routes" || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--from-cluster") }) {
		return
	}
	path, err := program.Beside("porthole-routes")
	if err != nil || path == "" {
		return
	}
	// If that fails this program does the same.
	_ = syscall.Exec(path, append([]string{path}, args[1:]...), os.Environ())
}
