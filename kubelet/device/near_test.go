package device

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/numa"
)

// onNodes are devices as "id@node,node": healthy, and near to these nodes.
func onNodes(text string) []Device {
	var out []Device
	for _, word := range strings.Fields(text) {
		id, nodes, _ := strings.Cut(word, "@")
		d := Device{ID: id, Healthy: true}
		for _, n := range strings.Split(nodes, ",") {
			if n != "" {
				d.Nodes = append(d.Nodes, int64(n[0]-'0'))
			}
		}
		out = append(out, d)
	}
	return out
}

// TestHints: from which NUMA nodes devices can be had, as upstream's generateDeviceTopologyHints has it.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		name, listed, others, have, reuse string
		number                            int
		want                              string
	}{
		{name: "one of each node", listed: "a@0 b@1", number: 1, want: "[0]+ [1]+ [0 1]"},
		{name: "both", listed: "a@0 b@1", number: 2, want: "[0 1]+"},
		{name: "others have one", listed: "a@0 b@1", others: "a", number: 1, want: "[1]+ [0 1]"},
		{name: "two on one node, one of them is taken", listed: "a@0 b@0 c@1", others: "a", number: 2, want: "[0 1]"},
		{name: "too few", listed: "a@0", number: 2, want: "[]"},
		{name: "one near to both", listed: "a@0,1 b@1", number: 2, want: "[1]+ [0 1]"},
		{name: "a node without devices counts not", listed: "a@1 b@1", number: 2, want: "[1]+"},
		{name: "it has one", listed: "a@0 b@1", have: "b", number: 1, want: "[1]+ [0 1]"},
		{name: "it has another number", listed: "a@0 b@1", have: "b", number: 2, want: "[]"},
		{name: "an init container had one", listed: "a@0 b@1 c@1", others: "a b", reuse: "b", number: 2,
			want: "[1]+ [0 1]"},
		{name: "a node that the machine does not have", listed: "a@5", number: 1, want: "[]"},
	} {
		table := newTable()
		table.replace(gpu, onNodes(c.listed))
		for pod, ids := range map[types.UID]string{"q": c.others, "p": c.have} {
			if ids != "" {
				table.claims[key{pod, "c", gpu}] = claim{devices: onNodes(ids)}
			}
		}

		var got []string
		for _, h := range table.hints(want{key: key{"p", "c", gpu}, number: c.number, reuse: strings.Fields(c.reuse)},
			[]int{0, 1}) {
			text := fmt.Sprint(h.Nodes.Nodes())
			if h.Preferred {
				text += "+"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// TestNear: devices of the wanted nodes go first, then those of other nodes, then those of none.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		name, listed    string
		near            numa.Mask
		number          int
		preferred, want string
	}{
		{"any", "a@1 b@0 c@0", 0, 2, "", "a b"},
		{"of node 0", "a@1 b@0 c@0", numa.MaskOf(0), 2, "", "b c"},
		{"the plugin chooses among those of the node only", "a@1 b@0 c@0", numa.MaskOf(0), 1, "a c", "c"},
		{"all of the node and one more", "a b@1 c@0", numa.MaskOf(0), 2, "", "c b"},
		{"all of the node and what the plugin prefers", "a b@1 c@0", numa.MaskOf(0), 2, "a", "c a"},
		{"the node that has fewer first", "a@0 b@0 c@1", numa.MaskOf(0, 1), 1, "", "c"},
		{"of no node in particular", "a b", numa.MaskOf(1), 1, "", "a"},
	} {
		table := newTable()
		table.replace(gpu, onNodes(c.listed))
		p, _, err := table.choose(want{key: key{"p", "c", gpu}, number: c.number, near: c.near})
		if got := strings.Join(p.settle(strings.Fields(c.preferred)), " "); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}
