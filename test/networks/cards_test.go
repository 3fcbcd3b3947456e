package networks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestTwoCards: Windows nodes have a second network card, with a default route of its own. The pods' network is bound
// to the card with the node's address, or to the one that `porthole routes --adapter` names. Packets take the same
// ways.
// Row 1.34.
func TestTwoCards(t *testing.T) {
	long(t)
	for adapter, flags := range map[string][]string{"Ethernet": nil,
		"Ethernet 2": {"--windows-adapter", "Ethernet 2"}} {
		t.Run(adapter, func(t *testing.T) {
			l := up(t, "host-gateway", append(flags, "--windows-nic", "10.98.0.0/24,gateway=10.98.0.1,metric=10")...)
			for _, node := range []string{"win01", "win02"} {
				l.boundTo(node, adapter)
			}
			l.fleet().checkPaths(promise{
				mtu: 1500,
				via: func(_, to string) string { return to },
				hops: func(l *lab, from, to string) []string {
					return []string{l.firstHop(from), l.nodes[to].String()}
				},
			})
		})
	}
}

// boundTo checks to which network card the pods' network of a node is bound, and that the node has the other one too.
func (l *lab) boundTo(node, adapter string) {
	l.t.Helper()
	n, err := l.overlay(node)
	if err != nil {
		l.t.Fatal(err)
	}
	var bound []string
	for _, p := range n.Policies {
		var s struct{ NetworkAdapterName string }
		if p.Type == "NetAdapterName" && json.Unmarshal(p.Settings, &s) == nil {
			bound = append(bound, s.NetworkAdapterName)
		}
	}
	if fmt.Sprint(bound) != fmt.Sprint([]string{adapter}) {
		l.t.Errorf("the network of %s is bound to %q, want %q", node, bound, adapter)
	}

	second := l.nodes[node].As4()
	address := fmt.Sprintf("10.98.0.%d", second[3])
	if have := l.ip(node, "-o", "-4", "address", "show"); !strings.Contains(have, " "+address+"/24 ") {
		l.t.Errorf("%s has the addresses\n%s, and no %s", node, have, address)
	}
}
