package plan

import (
	"fmt"
	"io"
	"strings"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/winbuild"
)

// Print prints what `porthole up` would make and run.
func Print(out io.Writer, l layout.Layout, c config.Cluster) error {
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
