package attach

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/cni/contract"
)

// warnings returns the warnings about a configuration: those of package contract, and one for each field that the
// plugin does not know either. Fields are those that it knows, in lower case.
func warnings(c *contract.Config, fields []string) []string {
	out := slices.Clone(c.Warnings)
	for _, name := range c.Unknown {
		if !slices.Contains(fields, strings.ToLower(name)) {
			out = append(out, fmt.Sprintf("field %q is not known and has no effect", name))
		}
	}
	return out
}

// warningsFile holds the warnings that were reported, one a line, in the folder of a network's addresses. Each call is
// a process of its own, so what was reported has to be kept on disk. Operators can read it there, because runtimes do
// not show what a plugin prints. After the file is deleted, the warnings are reported again.
const warningsFile = "warnings"

// newWarnings returns those of the list that are not in the file yet, and adds them to it. If the file cannot be
// written, a warning is reported with each call.
func newWarnings(dir string, list []string) []string {
	if len(list) == 0 {
		return nil
	}
	path := filepath.Join(dir, warningsFile)
	told, _ := os.ReadFile(path) // none yet, or unreadable: they are given again
	list = slices.DeleteFunc(slices.Clone(list), func(w string) bool {
		return slices.Contains(strings.Split(strings.ReplaceAll(string(told), "\r\n", "\n"), "\n"), w)
	})
	if len(list) == 0 || os.MkdirAll(dir, 0o755) != nil {
		return list
	}

	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return list
	}
	defer f.Close()
	_, _ = f.WriteString(strings.Join(list, "\n") + "\n") // see above
	return list
}
