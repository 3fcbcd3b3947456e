package networks

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/capture"
	"porthole.dev/porthole/internal/testkit/wait"
)

// checkManaged fails unless zebra is connected to mgmtd. A zebra that is not logs that 300 times a second.
func (f pathCheck) checkManaged() {
	f.t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "logs", "zebra.log"))
	if n := strings.Count(string(log), "can't send message"); err != nil || n > 300 {
		f.t.Errorf("zebra says %d times that it does not reach mgmtd (%v)", n, err)
	}
}

// checkStuckRouter: of a router without any route to pods, because its zebra does nothing, `porthole up` ends zebra,
// and the routes come back.
func (f pathCheck) checkStuckRouter() {
	f.t.Helper()
	f.freeze("router/zebra")
	for name := range f.nodes {
		if _, err := commandIn("porthole-tor", shortly, "ip", "route", "del", f.podRange(name), "proto",
			"bgp"); err != nil {
			f.t.Fatal(err)
		}
	}
	began := time.Now()
	out, err := command(time.Minute, porthole, "up", "--dir", dir, "--network", "bgp", "--node-cidr-mask-size", "23")
	if err != nil {
		f.t.Fatalf("`porthole up` with a zebra that does nothing: %v\n%s", err, out)
	}
	f.t.Logf("a zebra that does nothing is replaced, and has its routes, %.1f s after `porthole up`",
		time.Since(began).Seconds())
	has, err := commandIn("porthole-tor", shortly, "ip", "route", "show", "proto", "bgp")
	if err != nil || strings.Count(has, " via ") != len(f.nodes) {
		f.t.Errorf("the router's routes are %v:\n%s", err, has)
	}
}

// TestBGP: the nodes announce their ranges to FRR on the router and learn those of the others from it, with the nodes
// themselves as next hops, so that packets do not pass the router. Each node has a /23. The wire of a Windows node
// carries its session.
func TestBGP(t *testing.T) {
	l := up(t, "bgp", "--node-cidr-mask-size", "23")
	wire := capture.Start(t, platform.NetnsPath("porthole-win01"), "eth0")
	wait.NoError(t, time.Minute, "the router to have a route to each node's pods", func() error {
		has, err := commandIn("porthole-tor", shortly, "ip", "route", "show", "proto", "bgp")
		if err != nil {
			return err
		}
		for name, addr := range l.nodes {
			if !strings.Contains(has, "via "+addr.String()+" ") {
				return fmt.Errorf("no route through %s (%s):\n%s", name, addr, has)
			}
		}
		return nil
	})

	f := l.fleet()
	f.checkPaths(promise{
		mtu:  1500,
		via:  func(_, to string) string { return to },
		hops: func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} },
	})
	wire.Wait(t, "a segment of the session of win01", func(p capture.Packet) bool {
		return p.Protocol == capture.TCP && (p.SrcPort == 179 || p.DstPort == 179) && p.Src == l.nodes["win01"] &&
			p.Dst == netip.MustParseAddr(router)
	})
	f.checkLiars("10.244.200.0/23", nil)
	f.checkStatus(3, 1)
	nodes, err := readStatus()
	for _, n := range nodes {
		if n.Peers[0].Learnt != len(nodeNames) || n.Peers[0].Since.IsZero() { // FRR tells a node its own range too
			t.Errorf("the peer of %s is %+v", n.Name, n.Peers[0])
		}
	}
	if err != nil {
		t.Error(err)
	}
	d := pathCheck{f}
	d.checkComputed()
	d.checkManaged()
	if os.Getenv("PORTHOLE_NETWORKS") == "long" {
		thaw := d.freeze("lin01/routes", "win01/routes")
		win02 := d.podRange("win02")
		d.checkFlaws(flaw{"the next hop is nobody", "a-lin01", "a-win02",
			ip("lin01", "route", "replace", win02, "via", "10.99.0.77", "dev", "eth0", "proto", "201"),
			ip("lin01", "route", "replace", win02, "via", "10.99.0.22", "dev", "eth0", "proto", "201"),
			d.pinged("a-lin01", "a-win02"), "lin01", "route"})
		thaw()
		d.checkStuckRouter()
	}
}
