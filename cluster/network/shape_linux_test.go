package network

import (
	"encoding/json"
	"testing"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/node/routes"
)

// TestShape: what commands that only look read of a cluster's configuration says the same of its nodes as the
// configuration, in each mode.
func TestShape(t *testing.T) {
	for _, mode := range routes.Modes() {
		for _, alone := range []bool{false, true} {
			c := config.Default()
			c.Network, c.LinuxNodes, c.WindowsKubeletOnly = mode, 2, alone
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var shape inspect.Shape
			if err := json.Unmarshal(data, &shape); err != nil {
				t.Fatal(err)
			}

			got, want := shape.Nodes(), c.Nodes()
			if len(got) != len(want) {
				t.Fatalf("%s: nodes are %v, want %v", mode, got, want)
			}
			for i, n := range want {
				ours := !n.Windows || !alone
				is := inspect.Node{Name: n.Name, OS: n.OS(), Routes: ours,
					Proxy: n.Windows && ours && !Of(c).OwnServices()}
				if got[i] != is {
					t.Errorf("%s: node %+v, want %+v", mode, got[i], is)
				}
			}
		}
	}
}
