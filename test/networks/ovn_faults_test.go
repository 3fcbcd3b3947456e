package networks

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/ovn/controller"
)

// ovnClock is what ovn-controller writes anew each time.
var ovnClock = regexp.MustCompile(`(ovn-installed-ts|ovn-startup-ts|ovn-nb-cfg[a-z-]*)="*[0-9]+"*`)

// ovs runs ovs-vsctl on a node.
func ovs(node string, args ...string) (string, error) {
	return command(shortly, "ovs-vsctl",
		append([]string{"--db=unix:" + filepath.Join(dir, "hosts", node, "openvswitch/db.sock"), "--no-wait"},
			args...)...)
}

// ovn runs ovn-nbctl or ovn-sbctl.
func ovn(program, database string, args ...string) (string, error) {
	// Those of the root folder, as the databases are: ovn-trace of another version understands other flows.
	inRoot := []string{"../../bin/root", "/usr/bin/" + program, "--db=unix:" + filepath.Join(dir, "ovn", database)}
	return command(shortly, "../../bin/inroot", append(inRoot, args...)...)
}

// ovnTables calls add with what Open vSwitch of each node, and OVN's databases, hold.
func ovnTables(add func(machine, text string)) error {
	for _, n := range nodeNames {
		for _, args := range [][]string{
			{"--format=csv", "--columns=external_ids", "list", "Open_vSwitch"}, {"list-br"}, {"list-ports", "br-int"},
			{"list-ports", "br-ex"},
			{"--format=csv", "--columns=name,type,mac,external_ids,options,error", "list", "Interface"},
		} {
			out, err := ovs(n, args...)
			if err != nil {
				return err
			}
			add(n, ovnClock.ReplaceAllString(out, ""))
		}
	}
	for _, c := range [][]string{
		{"ovn-nbctl", "nb.sock", "show"}, {"ovn-nbctl", "nb.sock", "lb-list"},
		{"ovn-nbctl", "nb.sock", "lr-route-list", "porthole"}, {"ovn-sbctl", "sb.sock", "show"},
	} {
		out, err := ovn(c[0], c[1], c[2:]...)
		if err != nil {
			return err
		}
		add(c[0], out)
	}
	return nil
}

// ovnForeign puts things of others into the databases.
func ovnForeign() error {
	if _, err := ovn("ovn-nbctl", "nb.sock", "--may-exist", "ls-add", "theirs"); err != nil {
		return err
	}
	for _, n := range nodeNames {
		if _, err := ovs(n, "set", "open", ".", "external_ids:theirs=kept"); err != nil {
			return err
		}
	}
	return nil
}

// ovnDeleted deletes what the agents made in Open vSwitch of every node.
func ovnDeleted() error {
	for _, n := range nodeNames {
		if _, err := ovs(n, "--if-exists", "del-port", "br-int", "k8s-"+n, "--", "remove", "open", ".", "external_ids",
			"ovn-encap-type"); err != nil {
			return err
		}
	}
	return nil
}

// ovnWrites returns how often the controller has written the northbound database since it was started.
func ovnWrites() (int, error) {
	var s controller.Status
	out, err := commandIn("porthole-lin01", shortly, "curl", "-sS", "-m", "2", "http://127.0.0.1:10262/status")
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err == nil && (!s.Active || s.LastSync.IsZero()) {
		err = fmt.Errorf("the controller does not work yet: %s", out)
	}
	return s.Writes, err
}

// portsOf returns the router's ends of a node's cables.
func (f faultTest) portsOf(node string) []string {
	f.t.Helper()
	if f.mode != "ovn" {
		return []string{node}
	}
	out, err := commandIn("porthole-"+node, shortly, "ip", "-o", "link", "show", "eth1")
	if err != nil {
		f.t.Fatal(err)
	}
	peer := regexp.MustCompile(`eth1@if(\d+):`).FindStringSubmatch(out)
	all, err := commandIn("porthole-tor", shortly, "ip", "-o", "link", "show")
	if err != nil || peer == nil {
		f.t.Fatalf("the other end of eth1 of %s: %v: %s", node, err, out)
	}
	for line := range strings.Lines(all) {
		if rest, ok := strings.CutPrefix(line, peer[1]+": "); ok {
			name, _, _ := strings.Cut(rest, "@")
			return []string{node, name}
		}
	}
	f.t.Fatalf("the router has no link %s:\n%s", peer[1], all)
	return nil
}

// TestOVNFaults has what TestFaults does not do for every mode: the agent of a Windows node is killed at each change,
// the pod range of a node changes, and HNS loses the network and stops while it is made anew.
func TestOVNFaults(t *testing.T) {
	long(t)
	f := faultTest{pathCheck{up(t, "ovn").fleet()}}
	ovnKills{f}.atEachChange()
	f.ovnRangeChanges()
	again := faultTest{pathCheck{f.lab.fleet()}}
	again.ovnNetworkLost()
}

// remade deletes the pods of a node and starts them again, and waits until packets pass.
func (f faultTest) remade(what, node string) faultTest {
	f.t.Helper()
	if _, err := kubectl("delete", "pod", "a-"+node, "b-"+node, "--grace-period=0", "--force",
		"--ignore-not-found"); err != nil {
		f.t.Fatal(err)
	}
	wait.NoError(f.t, time.Minute, what, f.healthy)
	again := faultTest{pathCheck{f.lab.fleet()}}
	for _, n := range nodeNames {
		again.reaches(what, again.addr["b-"+n])
	}
	again.reach(what, node)
	return again
}

// ovnRangeChanges makes the Node win02 anew with another pod range: refused while pods run there, and taken without
// them.
func (f faultTest) ovnRangeChanges() {
	f.t.Helper()
	old, changed := netip.MustParsePrefix(f.podRange("win02")), netip.MustParsePrefix("10.244.200.0/24")
	newRange(f.lab, "win02", changed)
	f.warned("NetworkDiffers", []string{"win02"}, changed.String()+" now", "pods with addresses of "+old.String(),
		"drain the node")
	f.warned("RangeInUse", []string{"win02"}, changed.String()+" now", "have addresses of "+old.String(),
		"drain the node")
	if out, err := commandIn("porthole-win02", shortly, "curl", "-sS", "--fail-with-body",
		"http://127.0.0.1:10261/healthz"); err == nil || !strings.Contains(out, changed.String()) {
		f.t.Errorf("/healthz of win02: %v, %s", err, out)
	}
	f.reach("the new range is refused", "win02")

	again := f.remade("the new range", "win02")
	if addr := again.addr["a-win02"]; !changed.Contains(addr) {
		f.t.Errorf("a pod on win02 has the address %s, want one of %s", addr, changed)
	}
	wait.NoError(f.t, 20*time.Second, "the node itself to reach its pods", func() error {
		return ping("/run/netns/porthole-win02", again.addr["a-win02"], probe{}).err()
	})
	wait.NoError(f.t, 20*time.Second, "pods to reach services", func() error {
		_, err := commandIn("porthole-win02", shortly, "curl", "-sS", "--fail-with-body", "-m", "3",
			"http://"+again.services["lin01"]+"/")
		return err
	})
}

// ovnNetworkLost lets HNS lose the network of win01, kills the agent while it makes another, and stops HNS meanwhile.
// Pods that are started afterwards reach those of other nodes.
func (f faultTest) ovnNetworkLost() {
	f.t.Helper()
	f.killDuring("win01", "HcnCreateNetwork", 1)
	f.hnsOf("win01", "service", "stopped")
	f.kill("win01")
	f.hnsOf("win01", "service", "running", "lose=Network")
	wait.NoError(f.t, time.Minute, "the network of win01", func() error {
		if n := strings.Count(f.hnsOf("win01", "dump", "-o", "json"), `"Name": "porthole"`); n != 1 {
			return fmt.Errorf("HNS of win01 has %d networks, want 1", n)
		}
		return f.healthy()
	})
	f.remade("network lost and made anew", "win01")
}
