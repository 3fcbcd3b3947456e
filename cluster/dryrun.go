package cluster

import (
	"fmt"
	"io"
	"strings"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/winbuild"
)

// PrintPlan prints what Up would make and run.
func PrintPlan(out io.Writer, l Layout, c Config) error {
	fmt.Fprintf(out, "state in %s, kubeconfig %s\n", l.Dir, l.Kubeconfig())
	for _, n := range c.Nodes() {
		build := ""
		if n.Windows {
			build = ", Windows build " + winbuild.Build(n.Build).String()
		}
		fmt.Fprintf(out, "node %s: %s, namespace porthole-%s%s\n", n.Name, n.Address, n.Name, build)
	}

	tools, err := wine.Find()
	if err != nil {
		tools = wine.Debian // Wine need not be there to be planned for
	}
	processes, err := Processes(l, c, tools)
	if err != nil {
		return err
	}
	for _, p := range processes {
		where := p.Netns
		if where == "" {
			where = "this machine's own network"
		}
		fmt.Fprintf(out, "process %s in %s: %s %s\n", p.Name, where, p.Path, strings.Join(p.Args, " "))
	}
	return nil
}
