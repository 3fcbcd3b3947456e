package join

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/openvswitch"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestOVN joins a machine with the network ovn: Open vSwitch and ovn-controller are there, and its only card becomes a
// port of the bridge that takes its address and default route over. Pods of both nodes reach each other, and after
// leave the machine has its network of before.
func TestOVN(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	if err := openvswitch.Check(); err != nil {
		t.Fatal(err)
	}
	cp := newControlPlane(t, "cp09", "10.99.0.29").at(t)
	central := openvswitch.Central{Dir: filepath.Join(cp.dir, "central"), Listen: netip.MustParseAddr(cp.address)}
	must(t, central.Prepare(t.Context()))
	for _, d := range central.Daemons() {
		startDaemon(cp.machine, d)
	}
	cp.start(cp.inside(filepath.Join(bin, "porthole"), "ovn-control-plane", "--kubeconfig=/etc/kubernetes/admin.conf",
		"--nb="+central.NBAddress(), "--sb="+central.SBAddress()), "ovn-control-plane")
	cp.plugins()
	cp.ok("cp", filepath.Join(bin, "ovn_cni"), "/opt/cni/bin/")
	cp.importTestImage()
	m := cp.fresh("lin95", "10.99.0.95").at(t)
	m.importTestImage()
	flags := func(m *machine) []string {
		return []string{"--ovn-remote=" + central.SBAddress(), "--ovn-datapath=netdev", "--ovn-uplink=eth0",
			"--ovn-db=unix:" + startSwitch(m).Socket()}
	}
	cp.hasNetwork("ovn", strings.Join(flags(cp.machine), " "))
	m.supervise()
	fresh, links, routes := m.snapshot(), m.ok("ip", "-o", "-4", "addr"), m.ok("ip", "route")

	line := append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m")
	for _, f := range flags(m.machine) {
		line = append(line, "--routes-extra-args="+f)
	}
	r := m.porthole(line...)
	t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
	if r.code != 0 {
		t.Fatalf("code %d\nsupervisor:\n%s", r.code, tail(m.log("supervisor")))
	}
	pods := []string{cp.pod(cp.name), cp.pod(m.name)}
	cp.talks(pods[0], pods[1])
	cp.talks(pods[1], pods[0])
	if now := m.ok("ip", "route"); !strings.Contains(routes, "default via ") ||
		!strings.Contains(now, strings.Replace(strings.Split(routes, "\n")[0], "eth0", "br-ex", 1)) {
		t.Errorf("routes of the node\n%s\nbefore it joined\n%s", now, routes)
	}

	if r := m.porthole("leave"); r.code != 0 || !strings.Contains(r.out, "nothing of Porthole is left") {
		t.Errorf("leave: code %d: %s%s", r.code, r.out, r.err)
	}
	m.clean(fresh)
	if now := m.ok("ip", "-o", "-4", "addr"); now != links {
		t.Errorf("addresses after leave\n%s\nbefore\n%s", now, links)
	}
	if now := m.ok("ip", "route"); now != routes {
		t.Errorf("routes after leave\n%s\nbefore\n%s", now, routes)
	}
	shown := m.ok("ovs-vsctl", "--db=unix:"+switchOf(m.machine).Socket(), "show") + m.ok("ovs-vsctl",
		"--db=unix:"+switchOf(m.machine).Socket(), "get", "open", ".", "external_ids")
	for _, trace := range []string{"k8s-lin95", "br-ex", "ovn-remote", "ovn-encap-ip"} {
		if strings.Contains(shown, trace) {
			t.Errorf("Open vSwitch has %s after leave:\n%s", trace, shown)
		}
	}
}

func switchOf(m *machine) openvswitch.Host {
	return openvswitch.Host{Dir: filepath.Join(m.dir, "ovs")}
}

// startSwitch starts Open vSwitch and ovn-controller, which join expects.
func startSwitch(m *machine) openvswitch.Host {
	m.t.Helper()
	// The other end of a machine's card is a veth: it would hand packets without checksums to a switch that is a
	// program.
	must(m.t, platform.InNetns(platform.NetnsPath(lab.Default.Netns(m.name)),
		func() error { return platform.StopChecksumOffload("eth0") }))
	h := switchOf(m)
	must(m.t, h.Prepare(m.t.Context()))
	for _, d := range h.Daemons() {
		startDaemon(m, d)
	}
	return h
}

// startDaemon starts a program of Open vSwitch or OVN in the machine, and waits for its socket.
func startDaemon(m *machine, d openvswitch.Daemon) {
	m.t.Helper()
	c := m.inside(d.Path, d.Args...)
	c.Env = append(c.Env, d.Env...)
	m.start(c, d.Name)
	if d.Socket != "" {
		wait.True(m.t, 10*time.Second, "socket of "+d.Name,
			func() bool { _, err := os.Stat(d.Socket); return err == nil })
	}
}
