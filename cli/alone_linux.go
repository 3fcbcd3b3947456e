package cli

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"porthole.dev/porthole/cli/program"
)

// alone turns this process into the program that has its command alone, if that lies beside this program: the command
// then has only a part of the code in memory (ADR 2). It returns if there is none.
func alone(args []string) {
	name, rest := aloneFor(args)
	if name == "" {
		return
	}
	path, err := program.Beside(name)
	if err != nil || path == "" {
		return
	}
	// If that fails this program does the same.
	_ = syscall.Exec(path, append([]string{path}, rest...), os.Environ())
}

// aloneFor returns the program for a command line and its arguments; "" if only this one can carry it out. Clusters
// are read by this program only.
func aloneFor(args []string) (name string, rest []string) {
	if len(args) == 0 {
		return "", nil
	}
	switch args[0] {
	case "routes":
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--from-cluster") }) {
			return "", nil
		}
		return "porthole-routes", args[1:]
	case "web":
		return "porthole-web", args
	case "host-hnsd", "host-hcsd", "host-scm", "host-clear", "host-box":
		return "porthole-host", args
	}
	return "", nil
}
