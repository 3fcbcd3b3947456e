package networks

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"porthole.dev/porthole/cluster"
)

// TestOVN: OVN routes between pods and balances services, in Geneve between the nodes' cards for tunnels. No kube-proxy runs.
func TestOVN(t *testing.T) {
	f := up(t, "ovn").fleet()
	f.checkPaths(promise{
		mtu: 1442, encap: "geneve", port: 6081, card: "eth1",
		tunnel: func(node string) netip.Addr {
			b := f.nodes[node].As4()
			return netip.AddrFrom4([4]byte{10, 98, 0, b[3]})
		},
		// The one router is that of the sender's switch.
		hops: func(l *lab, from, _ string) []string {
			b := f.addr["a-"+from].As4()
			return []string{netip.AddrFrom4([4]byte{b[0], b[1], b[2], 1}).String()}
		},
	})
	f.noKubeProxy()
}

// noKubeProxy looks at the processes of the cluster, and at what programs the services in its place.
func (f *fleet) noKubeProxy() {
	f.t.Helper()
	out, err := command(shortly, porthole, "status", "-o", "json", "--dir", dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var s cluster.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		f.t.Fatal(err)
	}
	for _, n := range s.Nodes {
		for _, p := range n.Processes {
			if strings.Contains(p.Name, "kube-proxy") {
				f.t.Errorf("%s runs beside OVN", p.Name)
			}
		}
		if n.Services.Error != "" || n.Services.Present == 0 || len(n.Services.Problems) > 0 {
			f.t.Errorf("services of %s: %+v", n.Name, n.Services)
		}
	}
}
