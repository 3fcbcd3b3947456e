package networks

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// overlayNetwork is the HNS network of a Windows node.
type overlayNetwork struct {
	ID, Name string
	Policies []struct {
		Type     string
		Settings json.RawMessage `json:",omitempty"`
	}
}

// hnsOf runs `porthole host hns` of a node.
func (l *lab) hnsOf(node string, args ...string) string {
	l.t.Helper()
	out, err := command(shortly, porthole, append([]string{"host", "hns", node, "--dir", dir}, args...)...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// overlay returns the network of the pods on a node.
func (l *lab) overlay(node string) (n overlayNetwork, err error) {
	out, err := command(shortly, porthole, "host", "hns", node, "dump", "-o", "json", "--dir", dir)
	if err != nil {
		return n, err
	}
	var dump struct{ Networks []overlayNetwork }
	if err := json.Unmarshal([]byte(out), &dump); err != nil {
		return n, err
	}
	i := slices.IndexFunc(dump.Networks, func(n overlayNetwork) bool { return n.Name == "porthole" })
	if i < 0 {
		return n, fmt.Errorf("HNS of %s has no network porthole", node)
	}
	return dump.Networks[i], nil
}

// routes returns the policies of the network that lead to other nodes, as HNS has them, in order.
func (n overlayNetwork) routes() (list []string) {
	for _, p := range n.Policies {
		if p.Type == "RemoteSubnetRoute" {
			list = append(list, string(p.Settings))
		}
	}
	slices.Sort(list)
	return list
}

// modify changes policies of the network as another program of the node would.
func (l *lab) modify(node string, network overlayNetwork, request string, settings ...string) {
	l.t.Helper()
	var policies []string
	for _, s := range settings {
		policies = append(policies, `{"Type":"RemoteSubnetRoute","Settings":`+s+`}`)
	}
	document := fmt.Sprintf(`{"ResourceType":"Policy","RequestType":%q,"Settings":{"Policies":[%s]}}`, request,
		strings.Join(policies, ","))

	var conn net.Conn
	err := platform.InNetns(platform.NetnsPath("porthole-"+node), func() (err error) {
		conn, err = net.DialTimeout("tcp4", wire.HNSAddress, shortly)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	w, err := wire.NewConn(conn, 1, "other.exe")
	if err != nil {
		l.t.Fatal(err)
	}
	handle, _, err := w.Call(wire.Request{Op: wire.On(hnsd.Network, wire.Open), GUID: network.ID})
	if err == nil {
		_, _, err = w.Call(wire.Request{Op: wire.On(hnsd.Network, wire.Modify), Handle: handle,
			Text: [3]string{document}})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// kill ends the routes of a node at once, as soon as they run; the supervisor starts them again. It returns the
// process id.
func (l *lab) kill(node string) (pid int) {
	l.t.Helper()
	wait.NoError(l.t, 20*time.Second, "the process", func() (err error) {
		pid, err = routesOf(node)
		return err
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
	return pid
}

// routesOf returns the process id of the routes of a node.
func routesOf(node string) (int, error) {
	out, err := command(shortly, porthole, "status", "--dir", dir, "-o", "json")
	if err != nil {
		return 0, err
	}
	var status struct {
		Nodes []struct {
			Processes []struct {
				Name string
				PID  int
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return 0, err
	}
	for _, n := range status.Nodes {
		for _, p := range n.Processes {
			if strings.Contains(p.Name, node) && strings.Contains(p.Name, "routes") && p.PID > 1 {
				return p.PID, nil
			}
		}
	}
	return 0, fmt.Errorf("no routes run on %s", node)
}

// complete waits until the routes of a node, in another process than before, say that every route is there.
func (l *lab) complete(node string, before int) {
	l.t.Helper()
	want := len(nodeNames) - 1
	switch l.mode {
	case "bgp":
		want++ // its own range, which it announces
	case "tor":
		want = 0
	}

	wait.NoError(l.t, 30*time.Second, "the routes of "+node, func() error {
		if pid, err := routesOf(node); err != nil || pid == before {
			return fmt.Errorf("process %d, before %d: %v", pid, before, err)
		}
		out, err := commandIn("porthole-"+node, shortly, "curl", "-sS", "-m", "5", "http://127.0.0.1:10261/status")
		var s struct{ Wanted, Present int }
		if err == nil {
			err = json.Unmarshal([]byte(out), &s)
		}
		if err == nil && (s.Wanted != want || s.Present != want) {
			err = fmt.Errorf("not complete: %s", out)
		}
		if err == nil && want == 0 {
			_, err = commandIn("porthole-"+node, shortly, "curl", "-sS", "--fail-with-body", "-m", "5",
				"http://127.0.0.1:10261/healthz")
		}
		return err
	})
}

// reach pings from a pod on one node to pods on the others.
func (f *fleet) reach(what, from string) {
	f.t.Helper()
	for _, to := range nodeNames {
		if to != from {
			there := path{what + ": pod on " + from + " to pod on " + to,
				func() error { return ping(f.netns["a-"+from], f.addr["a-"+to], probe{}).err() }}
			back := path{what + ": pod on " + to + " to pod on " + from,
				func() error { return ping(f.netns["a-"+to], f.addr["a-"+from], probe{}).err() }}
			wait10(f.t, there)
			wait10(f.t, back)
		}
	}
}

// pinging sends packets between the pods of two nodes, in both directions, until stop is called, which returns how
// many there were and how many of them got no answer.
func (f *fleet) pinging(a, b string) (stop func() (sent, lost int)) {
	var mu sync.Mutex
	var sending sync.WaitGroup
	sent, lost, done := 0, 0, make(chan struct{})
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		sending.Go(func() {
			for pace := time.Tick(2 * time.Millisecond); ; <-pace {
				select {
				case <-done:
					return
				default:
				}
				err := ping(f.netns["a-"+pair[0]], f.addr["a-"+pair[1]], probe{}).err()
				mu.Lock()
				if sent++; err != nil {
					lost++
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, int) { close(done); sending.Wait(); return sent, lost }
}

// announcedBy returns what a node announces.
func announcedBy(node string) (string, error) {
	var n v1.Node
	err := get(&n, "node", node)
	return n.Annotations["flannel.alpha.coreos.com/backend-data"], err
}

// TestVXLANFaults: the Windows nodes have a firewall, which lets the overlay's packets in by a rule. What others
// delete on a Windows node is put back, and what is theirs stays. A killed agent writes nothing when it is back.
// Windows nodes follow another MAC address of a Linux node, and find a path with too small an MTU. A network that is
// made anew, while HNS stops and the agent is killed, has its peers again, which follow its new MAC address.
func TestVXLANFaults(t *testing.T) {
	long(t)
	f := up(t, "vxlan", "--windows-firewall").fleet()
	f.reach("at the start", "win01")
	before, err := f.overlay("win01")
	if err != nil {
		t.Fatal(err)
	}
	const foreign = `{"DestinationPrefix":"172.20.0.0/24","IsolationId":4096,"ProviderAddress":"10.99.0.99","DistributedRouterMacAddress":"00-15-5D-00-00-99"}`
	f.modify("win01", before, "Add", foreign)

	f.modify("win01", before, "Remove", before.routes()...)
	wait.NoError(t, 8*time.Second, "the policies of win01", func() error {
		now, err := f.overlay("win01")
		if got, want := now.routes(), len(before.routes())+1; err == nil && len(got) != want {
			err = fmt.Errorf("there are %d policies, want %d: %v", len(got), want, got)
		}
		return err
	})
	f.reach("policies deleted", "win01")

	f.restartsWithoutWrites()
	f.otherMAC()
	f.narrowPath()
	f.madeAnew()
}

// restartsWithoutWrites kills the routes of win01. No packet is lost, and those that start again change nothing in HNS.
func (f *fleet) restartsWithoutWrites() {
	f.t.Helper()
	before, err := f.overlay("win01")
	if err != nil {
		f.t.Fatal(err)
	}
	f.hnsOf("win01", "stats", "reset")
	stop := f.pinging("win01", "lin01")
	f.complete("win01", f.kill("win01"))
	if sent, lost := stop(); lost > 0 || sent == 0 {
		f.t.Errorf("%d of %d packets were lost while the routes of win01 started again", lost, sent)
	}

	f.noWrites("win01")
	after, err := f.overlay("win01")
	if err != nil || after.ID != before.ID || !slices.Equal(after.routes(), before.routes()) {
		f.t.Errorf("the network of win01 is %+v, was %+v: %v", after, before, err)
	}
}

// madeAnew lets HNS lose the network of win01 again and again, and kills the routes at each step of making it anew;
// the last time HNS stops meanwhile. Then the node has one network with exactly its peers, and pods on it reach
// others.
func (f *fleet) madeAnew() {
	f.t.Helper()
	told, err := announcedBy("win01")
	if err != nil {
		f.t.Fatal(err)
	}
	pid := 0
	for _, step := range []struct {
		function, what string
		nth            int
	}{
		{"HcnCreateNetwork", "the network that stays", 1},
		{"HcnCreateNetwork", "the network", 2},
		{"HcnModifyNetwork", "the host route", 1},
		{"HcnCreateEndpoint", "the host's endpoint", 1},
		{"HcnModifyNetwork", "the first peer", 2},
		{"HcnModifyNetwork", "the second peer", 3},
	} {
		f.killDuring("win01", step.function, step.nth)
		f.t.Logf("killed while it made %s", step.what)
	}

	f.hnsOf("win01", "service", "stopped")
	pid = f.kill("win01")
	f.hnsOf("win01", "service", "running", "lose=Network")
	f.complete("win01", pid)
	f.exactPeers()

	wait.NoError(f.t, 15*time.Second, "what win01 announces", func() error {
		now, err := announcedBy("win01")
		if err == nil && now == told {
			err = fmt.Errorf("still %s", now)
		}
		return err
	})
	if _, err := kubectl("delete", "pod", "a-win01", "b-win01", "--grace-period=0", "--force"); err != nil {
		f.t.Fatal(err)
	}
	again := f.lab.fleet()
	again.reach("after the network was made anew", "win01")
}

// killDuring lets HNS lose the network of a node, and kills the routes while the nth call of a function that makes it
// anew hangs.
func (f *fleet) killDuring(node, function string, nth int) {
	f.t.Helper()
	rules := filepath.Join(f.t.TempDir(), "rules.json")
	rule := fmt.Sprintf(`[{"function": %q, "program": "porthole.exe", "nth": %d, "action": "hang"}]`, function, nth)
	if err := os.WriteFile(rules, []byte(rule), 0o644); err != nil {
		f.t.Fatal(err)
	}
	f.hnsOf(node, "fault", rules)
	f.hnsOf(node, "lose", "Network", "match=porthole")

	wait.NoError(f.t, 30*time.Second, function, func() error {
		out, err := command(shortly, porthole, "host", "hns", node, "fault", "-o", "json", "--dir", dir)
		var hits []struct{ Hits int }
		if err == nil {
			err = json.Unmarshal([]byte(out), &hits)
		}
		if err == nil && (len(hits) != 1 || hits[0].Hits == 0) {
			err = fmt.Errorf("not called yet: %s", out)
		}
		return err
	})
	f.kill(node)
	f.hnsOf(node, "fault", "none")
}

// exactPeers checks that the network of win01 has a policy for each other node, and no other.
func (f *fleet) exactPeers() {
	f.t.Helper()
	wait.NoError(f.t, 20*time.Second, "the policies of win01", func() error {
		n, err := f.overlay("win01")
		if err != nil {
			return err
		}
		text := strings.Join(n.routes(), "\n")
		if len(n.routes()) != 2 || !strings.Contains(text, f.nodes["lin01"].String()) ||
			!strings.Contains(text, f.nodes["win02"].String()) {
			return fmt.Errorf("policies:\n%s", text)
		}
		return nil
	})
}
