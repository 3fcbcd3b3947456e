package networks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestTakeover: the network card of each Windows node is away for 5 s when HNS makes the first network on it, and
// connections are aborted. The nodes become ready all the same, each with one network and one endpoint of the host.
// Then a node loses its network and has routes of others: when the agent has made the network anew they are there
// again, and so are the routes to other nodes.
// Row 1.35.
func TestTakeover(t *testing.T) {
	long(t)
	f := up(t, "host-gateway", "--windows-nic-flap", "5s").fleet()
	for _, node := range []string{"win01", "win02"} {
		f.takenOver(node, 1)
		f.onceEach(node)
	}
	f.checkPaths(promise{
		mtu:  1500,
		via:  func(_, to string) string { return to },
		hops: func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} },
	})

	ours := f.gatewaysOn("win01")
	thaw := pathCheck{f}.freeze("win01/routes")
	f.hnsOf("win01", "lose", "Network", "match=porthole") // the switch gives the card back
	f.takenOver("win01", 2)
	addr := f.nodes["lin01"].String()
	for _, r := range []string{"192.168.50.0/24 via " + addr, "192.168.51.0/24 via " + addr + " metric 7 proto 201"} {
		if err := ip("win01", append([]string{"route", "add"}, strings.Fields(r)...)...)(); err != nil {
			t.Fatal(err)
		}
	}
	all := append(slices.Clone(ours), f.othersOn("win01")...)
	slices.Sort(all)
	thaw()
	f.takenOver("win01", 3)
	wait.NoError(t, 30*time.Second, "the routes of win01", func() error {
		if have := f.gatewaysOn("win01"); !slices.Equal(have, all) {
			return fmt.Errorf("they are %q, want %q", have, all)
		}
		return nil
	})
	f.onceEach("win01")

	if _, err := kubectl("wait", "--for=condition=Ready", "--timeout=60s", "node", "--all"); err != nil {
		t.Error(err)
	}
	if _, err := kubectl("delete", "pod", "a-win01", "b-win01", "--grace-period=0", "--force"); err != nil {
		t.Fatal(err)
	}
	f.lab.fleet().reach("after the network was made anew", "win01")
}

// takenOver waits until a switch has taken the card of a node over, or given it back, for the nth time, and the node
// has its address.
func (l *lab) takenOver(node string, nth int) {
	l.t.Helper()
	log := filepath.Join(dir, "hosts", node, "logs", "hnsd.log")
	wait.NoError(l.t, 30*time.Second, "the network card of "+node, func() error {
		data, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		if n := strings.Count(string(data), "A virtual switch changes a network card"); n != nth {
			return fmt.Errorf("its switch changed %d times, want %d", n, nth)
		}
		if _, err := os.Stat(filepath.Join(dir, "hosts", node, "hnsd", "takeover.json")); err == nil {
			return fmt.Errorf("the card is away")
		}
		return nil
	})
}

// onceEach checks that HNS of a node has one network, and one endpoint of the host.
func (l *lab) onceEach(node string) {
	l.t.Helper()
	var dump struct {
		Networks  []struct{ Name string }
		Endpoints []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(l.hnsOf(node, "dump", "-o", "json")), &dump); err != nil {
		l.t.Fatal(err)
	}
	hosts := 0
	for _, e := range dump.Endpoints {
		if e.Name == "porthole_ep" {
			hosts++
		}
	}
	if len(dump.Networks) != 1 || hosts != 1 {
		l.t.Errorf("HNS of %s has the networks %v and %d endpoints of the host, want one of each", node, dump.Networks,
			hosts)
	}
}

// gatewaysOn returns the routes of a node through other machines, the default route too, in order, each as "RANGE via
// ADDRESS".
func (l *lab) gatewaysOn(node string) (routes []string) {
	l.t.Helper()
	out, err := commandIn("porthole-"+node, shortly, "ip", "route", "show")
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) > 2 && words[1] == "via" {
			routes = append(routes, strings.Join(words[:3], " "))
		}
	}
	slices.Sort(routes)
	return routes
}

// othersOn returns those of gatewaysOn that the test made.
func (l *lab) othersOn(node string) []string {
	l.t.Helper()
	return slices.DeleteFunc(l.gatewaysOn(node), func(r string) bool { return !strings.HasPrefix(r, "192.168.5") })
}
