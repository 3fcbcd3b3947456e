package networks

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// statusNode is what `porthole status -o json` says of a node's network.
type statusNode struct {
	Name, Network string
	Routes        struct {
		Wanted, Present int
		Problems        []string
	}
	Peers []struct {
		Address string
		Up      bool
		Reason  string
		Since   time.Time
		Learnt  int
	}
}

func readStatus() (nodes []statusNode, err error) {
	out, err := command(shortly, porthole, "status", "--dir", dir, "-o", "json")
	if err != nil {
		return nil, err
	}
	var s struct{ Nodes []statusNode }
	err = json.Unmarshal([]byte(out), &s)
	return s.Nodes, err
}

// checkStatus compares `porthole status` with what the mode promises: each node's mode, its routes, and that each of
// its peers has a session.
func (l *lab) checkStatus(routes, peers int) {
	l.t.Helper()
	wait.NoError(l.t, 30*time.Second, "a status without problems", func() error {
		nodes, err := readStatus()
		if err != nil {
			return err
		}
		if len(nodes) != len(nodeNames) {
			return fmt.Errorf("status of %d nodes, want %d", len(nodes), len(nodeNames))
		}
		for _, n := range nodes {
			if n.Network != l.mode || n.Routes.Wanted != routes || n.Routes.Present != routes ||
				len(n.Peers) != peers || len(n.Routes.Problems) > 0 {
				return fmt.Errorf("status of %s: %+v; want mode %s, %d routes, %d peers", n.Name, n, l.mode, routes,
					peers)
			}
			for _, p := range n.Peers {
				if !p.Up {
					return fmt.Errorf("status of %s: peer %s has no session: %s", n.Name, p.Address, p.Reason)
				}
			}
		}
		return nil
	})

	text, err := command(shortly, porthole, "status", "--dir", dir)
	if err != nil {
		l.t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(line, " "); l.nodes[name].IsValid() {
			named++
			if !strings.Contains(line, " "+l.mode+" ") {
				l.t.Errorf("the status of %s does not name mode %s: %s", name, l.mode, line)
			}
		}
	}
	if named == 0 {
		l.t.Errorf("the status has no line of a node:\n%s", text)
	}
}
