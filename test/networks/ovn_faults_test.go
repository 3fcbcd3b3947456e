package networks

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestOVNFaults has what TestFaults does not do for every mode: the pod range of a Windows node changes, and HNS loses the network and stops
// while it is made anew.
func TestOVNFaults(t *testing.T) {
	long(t)
	f := faultTest{pathCheck{up(t, "ovn").fleet()}}
	f.ovnRangeChanges()
	again := faultTest{pathCheck{f.lab.fleet()}}
	again.ovnNetworkLost()
}

// remade deletes the pods of a node and starts them again, and waits until packets pass.
func (f faultTest) remade(what, node string) faultTest {
	f.t.Helper()
	if _, err := kubectl("delete", "pod", "a-"+node, "b-"+node, "--grace-period=0", "--force", "--ignore-not-found"); err != nil {
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

// ovnRangeChanges makes the Node win02 anew with another pod range: refused while pods run there, and taken without them.
func (f faultTest) ovnRangeChanges() {
	f.t.Helper()
	old, changed := netip.MustParsePrefix(f.podRange("win02")), netip.MustParsePrefix("10.244.200.0/24")
	f.newRange("win02", changed)
	f.warned("NetworkDiffers", []string{"win02"}, changed.String()+" now", "pods with addresses of "+old.String(), "drain the node")
	f.warned("RangeInUse", []string{"win02"}, changed.String()+" now", "have addresses of "+old.String(), "drain the node")
	if out, err := commandIn("porthole-win02", shortly, "curl", "-sS", "--fail-with-body", "http://127.0.0.1:10261/healthz"); err == nil || !strings.Contains(out, changed.String()) {
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
		_, err := commandIn("porthole-win02", shortly, "curl", "-sS", "--fail-with-body", "-m", "3", "http://"+again.services["lin01"]+"/")
		return err
	})
}

// ovnNetworkLost lets HNS lose the network of win01, kills the agent while it makes another, and stops HNS meanwhile. Pods that are started
// afterwards reach those of other nodes.
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
