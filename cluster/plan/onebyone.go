package plan

import (
	"slices"
	"strings"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/supervise"
)

// OneByOne makes the first node wait for the control plane, each other node for the one before it, and
// metrics-server for the last. On a slow machine nodes that start together leave the API server too little of
// the processor: TLS handshakes take longer than client-go's 10 s, every client tries again, and no node
// becomes Ready (seen in test/vm).
func OneByOne(processes []supervise.Process, l layout.Layout, c config.Cluster) {
	when := map[string]supervise.Condition{}
	file := l.Applied()
	for _, n := range c.Nodes() {
		when[n.Name] = supervise.Condition{Path: file}
		if slices.Contains(c.Networked(), n) { // others need not become ready
			file = l.Ready(n.Name)
		}
	}

	for i := range processes {
		switch p := &processes[i]; {
		case strings.HasPrefix(p.Name, p.Node+"/"):
			p.WaitFor = slices.Insert(p.WaitFor, 0, when[p.Node])
		case p.Name == "metrics-server": // measures nodes
			p.WaitFor = slices.Insert(p.WaitFor, 0, supervise.Condition{Path: file})
		}
	}
}
