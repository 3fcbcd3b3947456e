package networks

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/observe"
	"porthole.dev/porthole/internal/testkit/wait"
)

const router = "10.99.0.1"

// firstHop is the address with which a node answers its pods: the gateway that they have.
func (l *lab) firstHop(node string) string {
	l.t.Helper()
	var n v1.Node
	if err := get(&n, "node", node); err != nil {
		l.t.Fatal(err)
	}
	first := netip.MustParsePrefix(n.Spec.PodCIDR).Addr().Next()
	if strings.HasPrefix(node, "win") {
		return first.Next().String() // the host's endpoint has the second address
	}
	return first.String()
}

// TestTor: with both families and a /26 for each node, no node has a route to another's pods; the router, which was
// given what `porthole routes --print-router ip` prints, has them.
// Rows 1.30, 1.43.
func TestTor(t *testing.T) {
	l := up(t, "tor", "--pod-cidr", "10.244.0.0/16,fd00:10:244::/48", "--node-cidr-mask-size", "26")
	for _, node := range nodeNames {
		out, err := commandIn("porthole-"+node, shortly, "sh", "-c",
			"ip route show root 10.244.0.0/16; ip -6 route show root fd00:10:244::/48")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "via") {
			t.Errorf("%s has routes to pods of other nodes:\n%s", node, out)
		}
	}

	f := l.fleet()
	if f.six == nil {
		t.Fatal("the pods have no address of IPv6")
	}
	f.checkPaths(promise{
		mtu: 1500,
		via: func(_, _ string) string { return "tor" },
		hops: func(l *lab, from, to string) []string {
			return []string{l.firstHop(from), router, l.nodes[to].String()}
		},
	})

	f.checkLiars("10.244.200.0/26", nil)
	f.checkStatus(0, 0)
	l.checkRouter("")
	var win01 v1.Node
	if err := get(&win01, "node", "win01"); err != nil {
		t.Fatal(err)
	}
	if _, err := commandIn("porthole-tor", shortly, "ip", "route", "del", win01.Spec.PodCIDR); err != nil {
		t.Fatal(err)
	}
	l.checkRouter("node win01: no route to " + win01.Spec.PodCIDR + ", want one via 10.99.0.21")
	if _, err := commandIn("porthole-tor", shortly, "ip", "route", "add", win01.Spec.PodCIDR, "nexthop", "via",
		"10.99.0.21", "nexthop", "via", "10.99.0.11"); err != nil {
		t.Fatal(err)
	}
	l.checkRouter("node win01: " + win01.Spec.PodCIDR + " goes to 10.99.0.11 (node lin01) besides 10.99.0.21")

	d := pathCheck{f}
	if r, text := d.follow(d.gather(), "a-lin01", "a-win01"); r.First() == nil || r.First().At != observe.RouterName ||
		r.First().What != "route" {
		t.Errorf("the router spreads packets for win01 over two nodes, and `porthole path` says:\n%s", text)
	}
	if err := ip("tor", "route", "replace", win01.Spec.PodCIDR, "via", "10.99.0.21")(); err != nil {
		t.Fatal(err)
	}
	d.checkComputed()
	if os.Getenv("PORTHOLE_NETWORKS") == "long" {
		pods := d.podRange("win02")
		d.checkFlaws(flaw{"the router lacks a line", "a-win01", "a-win02", ip("tor", "route", "del", pods),
			ip("tor", "route", "add", pods, "via", "10.99.0.22"), d.pinged("a-win01", "a-win02"), observe.RouterName,
			"route"})
	}
}

// TestTorRouterForgets: a router that lost its routes gets them with the next `porthole up`, and packets pass again.
// With `porthole routes --keep-router` it gets them at once, and follows nodes that come and go. Then HNS loses the
// network of a node and stops.
func TestTorRouterForgets(t *testing.T) {
	long(t)
	l := up(t, "tor")
	f := l.fleet()
	if _, err := commandIn("porthole-tor", shortly, "ip", "route", "flush", "root", "10.244.0.0/16"); err != nil {
		t.Fatal(err)
	}
	if a := ping(f.netns["a-win01"], f.addr["a-lin01"], probe{}); a.err() == nil {
		t.Error("packets pass without routes of the router")
	}
	if _, err := command(time.Minute, porthole, "up", "--dir", dir, "--network", "tor"); err != nil {
		t.Fatal(err)
	}
	l.checkRouter("")
	for _, n := range nodeNames {
		f.reaches("the router has its routes again", f.addr["b-"+n])
	}

	l.keepRouter()
	if _, err := commandIn("porthole-tor", shortly, "ip", "route", "flush", "root", "10.244.0.0/16"); err != nil {
		t.Fatal(err)
	}
	l.routerHas("10.244.1.0/24 ", true)
	for _, n := range nodeNames {
		f.reaches("the kept router has its routes again", f.addr["b-"+n])
	}
	g := f.newGhost()
	pod := g.pod("10.244.77.7")
	f.node("ghost", "10.244.77.0/24", g.addr.String())
	l.routerHas("10.244.77.0/24 via "+g.addr.String(), true)
	f.reaches("a node is added", pod)
	f.deleteNode("ghost")
	l.routerHas("10.244.77.0/24", false)
	l.checkRouter("")

	for _, n := range nodeNames {
		l.ip(n, "route", "add", foreignRange, "via", router, "proto", "static")
	}
	faultTest{pathCheck{f}}.networkLost()
}

// keepRouter runs `porthole routes --keep-router` until the test ends.
func (l *lab) keepRouter() {
	l.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(porthole, "routes", "--keep-router", "ip", "--router-command", "ip -n porthole-tor",
		"--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--cluster-cidr", "10.244.0.0/16", "--bind", "127.0.0.1:10271")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || l.t.Failed() {
			l.t.Errorf("the router's keeper: %v\n%s", err, out.String())
		}
	})
	wait.NoError(l.t, 10*time.Second, "the router's keeper", func() error {
		_, err := command(shortly, "curl", "-sS", "--fail-with-body", "http://127.0.0.1:10271/healthz")
		return err
	})
}

// routerHas waits until the router has a route that begins with text, or none.
func (l *lab) routerHas(text string, want bool) {
	l.t.Helper()
	started := time.Now()
	wait.NoError(l.t, 5*time.Second, "the router's route "+text, func() error {
		out, err := commandIn("porthole-tor", shortly, "ip", "route", "show")
		if err == nil && strings.Contains("\n"+out, "\n"+text) != want {
			err = fmt.Errorf("the router has\n%s", out)
		}
		return err
	})
	l.t.Logf("the router has %s: %v, after %v", text, want, time.Since(started).Round(time.Millisecond))
}

// checkRouter compares the router's routes as an operator would; want is a part of what the check complains about, ""
// if nothing.
func (l *lab) checkRouter(want string) {
	l.t.Helper()
	shown, err := commandIn("porthole-tor", shortly, "sh", "-c", "ip -j route; ip -j -6 route")
	if err != nil {
		l.t.Fatal(err)
	}
	_, err = command(shortly, "sh", "-c",
		`echo "$1" | "$2" routes --check-router ip --cluster-cidr 10.244.0.0/16,fd00:10:244::/48 --kubeconfig "$3"`,
		"sh",
		shown, porthole, filepath.Join(dir, "kubeconfig"))
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		l.t.Errorf("the check of the router says %v, want %q", err, want)
	}
}
