package networks

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hosts "porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// soon is how long a change of a Node may take to reach the routes of the others.
const soon = 2 * time.Second

// ghost is a node without a kubelet: a host on the segment with the address of one pod, and a Node object.
type ghost struct {
	*fleet
	addr netip.Addr
}

// newGhost makes the host. It has routes to the pods of the cluster, so that answers find their way.
func (f *fleet) newGhost() *ghost {
	f.t.Helper()
	g := &ghost{fleet: f, addr: netip.MustParseAddr("10.99.0.61")}
	f.t.Cleanup(func() {
		if err := hosts.Default.RemoveHost("ghost"); err != nil {
			f.t.Error(err)
		}
	})
	if err := hosts.Default.EnsureHost("ghost", g.addr); err != nil {
		f.t.Fatal(err)
	}

	var list v1.NodeList
	if err := get(&list, "nodes"); err != nil {
		f.t.Fatal(err)
	}
	for _, n := range list.Items {
		g.in(func() error { return platform.SetRoute(netip.MustParsePrefix(n.Spec.PodCIDR), f.nodes[n.Name]) })
	}
	return g
}

func (g *ghost) in(do func() error) {
	g.t.Helper()
	if err := platform.InNetns(platform.NetnsPath(hosts.Default.Netns("ghost")), do); err != nil {
		g.t.Fatal(err)
	}
}

// pod gives the host the address of a pod.
func (g *ghost) pod(addr string) netip.Addr {
	g.t.Helper()
	a := netip.MustParseAddr(addr)
	g.in(func() error { return platform.SetAddress("lo", netip.PrefixFrom(a, 32)) })
	return a
}

// node makes a Node object with a pod range, and the address that its kubelet would report.
func (l *lab) node(name, podCIDR, addr string) {
	l.t.Helper()
	l.apply(
		fmt.Sprintf(
			"apiVersion: v1\nkind: Node\nmetadata: {name: %s}\nspec: {podCIDR: %[2]s, podCIDRs: [%[2]s], unschedulable: true}\n", name, podCIDR))
	l.t.Cleanup(func() { kubectl("delete", "node", "--ignore-not-found", name) })
	l.address(name, addr)
}

func (l *lab) address(node, addr string) {
	l.t.Helper()
	_, err := kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"%s"}]}}`, addr))
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) deleteNode(name string) {
	l.t.Helper()
	if _, err := kubectl("delete", "node", name); err != nil {
		l.t.Fatal(err)
	}
}

// routes waits until every node's route to a range goes through an address, or is not there if via is "".
func (l *lab) routes(what, dst, via string) {
	l.t.Helper()
	started := time.Now()
	for _, n := range nodeNames {
		wait.NoError(l.t, soon, what+" on "+n, func() error {
			out, err := commandIn("porthole-"+n, shortly, "ip", "route", "show", "exact", dst)
			if err != nil {
				return err
			}
			if got := strings.TrimSpace(out); via == "" && got != "" ||
				via != "" && (!strings.Contains(got, "via "+via+" ") || strings.Count(got, "via") != 1) {
				return fmt.Errorf("%s: the route of %s to %s is %q, want via %q", what, n, dst, got, via)
			}
			return nil
		})
	}
	l.t.Logf("%s: on all nodes after %v", what, time.Since(started).Round(time.Millisecond))
}

// reaches waits until the pods a of all nodes get an answer from an address.
func (f *fleet) reaches(what string, addr netip.Addr) {
	f.t.Helper()
	for _, n := range nodeNames {
		wait.NoError(f.t, 5*time.Second, what, func() error {
			if err := ping(f.netns["a-"+n], addr, probe{}).err(); err != nil {
				return fmt.Errorf("%s: from a pod on %s to %s: %w", what, n, addr, err)
			}
			return nil
		})
	}
}

// warned waits until each of the nodes has an event of a reason whose message has all the words.
func (l *lab) warned(reason string, nodes []string, words ...string) {
	l.t.Helper()
	for _, n := range nodes {
		wait.NoError(l.t, 30*time.Second, "event "+reason, func() error {
			out, err := kubectl("get", "events", "-A", "--field-selector", "reason="+reason+",involvedObject.name="+n,
				"-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				found := true
				for _, w := range words {
					found = found && strings.Contains(line, w)
				}
				if found {
					return nil
				}
			}
			return fmt.Errorf("no event %s of node %s has %q:\n%s", reason, n, words, out)
		})
	}
}

// checkNodes adds, changes and removes nodes, and looks at the routes of the others, on Linux and on Windows, and at
// packets.
func (f *fleet) checkNodes() {
	t := f.t
	t.Helper()
	g := f.newGhost()
	first, second := g.pod("192.168.6.7"), g.pod("192.168.7.7")

	f.node("ghost", "192.168.6.0/24", g.addr.String())
	f.routes("a node is added", "192.168.6.0/24", g.addr.String())
	f.reaches("a node is added", first)

	g.in(func() error { return platform.SetAddress("eth0", netip.MustParsePrefix("10.99.0.62/24")) })
	f.address("ghost", "10.99.0.62")
	f.routes("its address changes", "192.168.6.0/24", "10.99.0.62")
	f.reaches("its address changes", first)

	f.deleteNode("ghost")
	f.node("ghost", "192.168.7.0/24", "10.99.0.62")
	f.routes("its pod range changes: the old one", "192.168.6.0/24", "")
	f.routes("its pod range changes: the new one", "192.168.7.0/24", "10.99.0.62")
	f.reaches("its pod range changes", second)

	f.address("ghost", "10.77.0.5")
	f.routes("it is in another segment", "192.168.7.0/24", "")
	f.warned("RouteRefused", nodeNames, "10.77.0.5 of node ghost is not on a segment that this node shares")
	for _, n := range nodeNames {
		f.reaches("a node is in another segment", f.addr["b-"+n])
	}

	f.address("ghost", "10.99.0.62")
	f.routes("it is in the segment again", "192.168.7.0/24", "10.99.0.62")
	f.node("twin", "192.168.7.0/25", "10.99.0.63")
	f.warned("RouteRefused", nodeNames,
		"192.168.7.0/25 of node twin overlaps 192.168.7.0/24 of node ghost, which keeps its route")
	f.routes("two nodes have one range", "192.168.7.0/24", "10.99.0.62")
	f.routes("two nodes have one range: the other", "192.168.7.0/25", "")
	f.reaches("two nodes have one range", second)
	f.deleteNode("twin")

	f.deleteNode("ghost")
	f.routes("a node is removed", "192.168.7.0/24", "")
	for _, n := range nodeNames {
		f.reaches("a node is removed", f.addr["b-"+n])
	}
}

// TestHostGatewayRangeChanges: the Node of a Windows node is made anew with another pod range. While pods run there
// the network stays, and the node says what is to be done; without them it gets the new range, and packets pass.
func TestHostGatewayRangeChanges(t *testing.T) {
	long(t)
	f := pathCheck{up(t, "host-gateway").fleet()}
	old, changed := netip.MustParsePrefix(f.podRange("win02")), netip.MustParsePrefix("10.244.200.0/24")
	newRange(f.lab, "win02", changed)

	f.warned("NetworkDiffers", []string{"win02"}, "wanted "+changed.String()+", found "+old.String(),
		"--replace-network")
	if out, err := commandIn("porthole-win02", shortly, "curl", "-sS", "--fail-with-body",
		"http://127.0.0.1:10261/healthz"); err == nil || !strings.Contains(out, changed.String()) {
		t.Errorf("/healthz of win02: %v, %s", err, out)
	}
	if err := ping(f.netns["a-win02"], f.addr["b-win02"], probe{}).err(); err != nil {
		t.Errorf("pods of one node: %v", err)
	}

	if _, err := kubectl("delete", "pod", "a-win02", "b-win02", "--grace-period=0", "--force"); err != nil {
		t.Fatal(err)
	}
	wait.NoError(t, time.Minute, "the new range", func() error {
		_, err := commandIn("porthole-win02", shortly, "curl", "-sS", "--fail-with-body",
			"http://127.0.0.1:10261/healthz")
		return err
	})
	again := f.lab.fleet()
	if addr := again.addr["a-win02"]; !changed.Contains(addr) {
		t.Errorf("a pod on win02 has the address %s, want one of %s", addr, changed)
	}
	for _, n := range nodeNames {
		again.reaches("after the range has changed", again.addr["b-"+n])
	}
}

// newRange deletes a Node object and creates it again with another pod range.
func newRange(l *lab, node string, to netip.Prefix) {
	l.t.Helper()
	joinAgain(l, node, func(s *v1.NodeSpec) { s.PodCIDR, s.PodCIDRs = to.String(), []string{to.String()} })
}

// joinAgain deletes a Node object and creates it again with a changed spec. If the node's kubelet registers the Node
// before that, without a pod range, both are done once more.
func joinAgain(l *lab, node string, change func(*v1.NodeSpec)) {
	l.t.Helper()
	var n v1.Node
	if err := get(&n, "node", node); err != nil {
		l.t.Fatal(err)
	}
	change(&n.Spec)
	n.ObjectMeta = metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
	n.APIVersion, n.Kind = "v1", "Node"
	manifest, err := json.Marshal(n)
	if err != nil {
		l.t.Fatal(err)
	}
	file := filepath.Join(l.t.TempDir(), "node.json")
	if err := os.WriteFile(file, manifest, 0o644); err != nil {
		l.t.Fatal(err)
	}

	wait.NoError(l.t, 30*time.Second, "another Node", func() error {
		if _, err := kubectl("delete", "node", node, "--ignore-not-found"); err != nil {
			return err
		}
		if _, err := kubectl("create", "-f", file); err != nil {
			return err
		}
		if got := l.podRange(node); got != n.Spec.PodCIDR {
			return fmt.Errorf("the range of %s is %s, want %s", node, got, n.Spec.PodCIDR)
		}
		return nil
	})
}
