package attach

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"porthole.dev/porthole/cni/contract"
)

// warnings returns what is to be said about a configuration, besides fields that the plugin knows.
func warnings(c *contract.Config, fields []string) []string {
	out := slices.Clone(c.Warnings)
	for _, name := range c.Unknown {
		if !slices.Contains(fields, strings.ToLower(name)) {
			out = append(out, fmt.Sprintf("field %q is not known and has no effect", name))
		}
	}
	return out
}

// warningsFile is the file with the warnings that were given, one a line, in the folder of a network's addresses. A plugin is a process
// per call, so that it has to remember them on the disk; an operator reads there what runtimes do not show. Who deletes the file hears
// them again.
const warningsFile = "warnings"

// newWarnings returns those of the list that were not returned before, and remembers them. A folder that cannot be written gives all:
// twice is better than never.
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
