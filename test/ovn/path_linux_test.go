package ovn

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/path"
)

// facts reads what `porthole facts` prints on each node, with OVN's databases on n1, and what the API has. The agents
// here have no status, so that the mode is what Open vSwitch shows.
func (w faultWorld) facts() *path.Facts {
	w.t.Helper()
	program, err := filepath.Abs("../../bin/porthole")
	w.must(err)
	all := &path.Facts{Cluster: path.Cluster{ServiceRanges: []netip.Prefix{services}}}
	for _, o := range w.api.Nodes() {
		n := w.nodes[o.Name]
		args := []string{"facts", "--name=" + n.name, "--cni-conf-dir=", "--ovn-db=unix:" + n.host.Socket()}
		if n.name == "n1" {
			args = append(args, "--ovn-nb=unix:"+w.central.NB(), "--ovn-sb=unix:"+w.central.SB())
		}
		var node path.Node
		w.must(json.Unmarshal([]byte(w.in(n, program, args...)), &node))
		all.Nodes = append(all.Nodes, node)
		all.Cluster.Nodes = append(all.Cluster.Nodes,
			path.ClusterNode{Name: n.name, System: "linux", Address: n.addr,
				PodCIDRs: []netip.Prefix{netip.MustParsePrefix(o.Spec.PodCIDR)}})
	}

	for _, p := range w.api.Pods() {
		addr, _ := netip.ParseAddr(p.Status.PodIP)
		all.Cluster.Pods = append(all.Cluster.Pods,
			path.Pod{Name: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, Address: addr, Phase: "Running"})
	}
	for _, s := range w.api.Services() {
		for _, slice := range w.api.Slices() {
			for i, port := range s.Spec.Ports {
				service := path.Service{Name: s.Namespace + "/" + s.Name,
					Protocol: strings.ToLower(string(port.Protocol)), Port: uint16(port.Port),
					Addresses: []netip.Addr{netip.MustParseAddr(s.Spec.ClusterIP)}}
				for _, e := range slice.Endpoints {
					service.Backends = append(service.Backends,
						path.Backend{Address: netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]),
							uint16(*slice.Ports[i].Port))})
				}
				all.Cluster.Services = append(all.Cluster.Services, service)
			}
		}
	}
	return all
}

// follow returns what `porthole path` says.
func (w faultWorld) follow(from, to string) (path.Result, string) {
	w.t.Helper()
	r, err := path.Follow(w.facts(), path.Request{From: from, To: to})
	w.must(err)
	var text strings.Builder
	w.must(r.Print(&text))
	return r, text.String()
}

// traced returns the port by which ovn-trace lets a packet of TCP from a pod leave OVN; "" if it is dropped.
func (w faultWorld) traced(from *pod, to netip.Addr) string {
	w.t.Helper()
	node := from.Spec.NodeName
	subnet := netip.PrefixFrom(from.addr, 24).Masked()
	out, err := exec.CommandContext(w.t.Context(), "ovn-trace", "--db=unix:"+w.central.SB(), "--minimal", node,
		fmt.Sprintf(
			`inport == "%s" && eth.src == %s && eth.dst == %s && ip4.src == %s && ip4.dst == %s && ip.ttl == 64 && tcp && tcp.dst == 8080`,
			ovnet.PodPort("default", from.Name), ovnet.MACOf(from.addr), ovnet.MACOf(ovnet.RouterAddr(subnet)),
			from.addr,
			to)).CombinedOutput()
	if err != nil {
		w.t.Fatalf("ovn-trace: %v: %s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), `output("`)
	port, _, _ := strings.Cut(rest, `"`)
	return port
}

// TestPath compares what `porthole path` says of OVN with packets and with ovn-trace: while everything works, and
// while one thing is broken.
func TestPath(t *testing.T) {
	long(t)
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	n1, n2 := w.nodes["n1"], w.nodes["n2"]
	nbctl := func(args ...string) {
		w.must(exec.CommandContext(t.Context(), "ovn-nbctl",
			append([]string{"--db=unix:" + w.central.NB(), "--wait=hv"}, args...)...).Run())
	}
	reached := func() error {
		_, err := send(a.space, "udp", netip.AddrPortFrom(c.addr, 8080).String(), 100, time.Second)
		return err
	}

	for _, to := range []string{"c:8080", "n2", "web:80"} {
		for _, from := range []string{"a", "n1"} {
			if r, text := w.follow(from, to); r.First() != nil || r.Unknown() {
				t.Errorf("%s reaches %s, and `porthole path` says:\n%s", from, to, text)
			}
		}
	}
	_, text := w.follow("a", "c:8080")
	for _, want := range []string{"logical port default_a of switch n1 is interface ovn",
		"logical router porthole: network 10.244.2.0/24, by port rtos-n2", "geneve to 10.99.0.12, chassis n2",
		"logical port default_c of switch n2"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if got := w.traced(a, c.addr); got != "default_c" {
		t.Errorf("ovn-trace brings the packet to port %q", got)
	}

	iface := strings.TrimSpace(w.vsctl(n2, "--bare", "--columns=name", "find", "Interface",
		"external_ids:iface-id=default_c"))
	match := "ip4.dst == " + c.addr.String()
	for _, flaw := range []struct {
		name          string
		breaks, mends func()
		at, what      string
		traced        bool // ovn-trace knows too
	}{
		{"an ACL of the sender's switch", func() { nbctl("acl-add", "n1", "from-lport", "1000", match, "drop") },
			func() { nbctl("acl-del", "n1") }, "n1", "acl", true},
		{"an ACL of the receiver's switch",
			func() { nbctl("acl-add", "n2", "to-lport", "1000", `outport == "default_c" && ip4`, "drop") },
			func() { nbctl("acl-del", "n2") }, "n1", "acl", true},
		{"a port that is disabled", func() { nbctl("lsp-set-enabled", "default_c", "disabled") },
			func() { nbctl("lsp-set-enabled", "default_c", "enabled") }, "n2", "port", true},
		{"an interface that is no port",
			func() { w.vsctl(n2, "remove", "interface", iface, "external_ids", "iface-id") },
			func() { w.vsctl(n2, "set", "interface", iface, "external_ids:iface-id=default_c") }, "n2", "interface",
			false},
		{"an interface that is down", func() { w.in(n2, "ip", "link", "set", iface, "down") },
			func() { w.in(n2, "ip", "link", "set", iface, "up") }, "n2", "interface", false},
		{"the end of a tunnel is nowhere",
			func() { w.vsctl(n2, "set", "open", ".", "external_ids:ovn-encap-ip=10.99.0.99") },
			func() { w.vsctl(n2, "set", "open", ".", "external_ids:ovn-encap-ip=10.99.0.12") }, "n1", "tunnel", false},
		{"no kind of tunnel in common", func() { w.vsctl(n2, "set", "open", ".", "external_ids:ovn-encap-type=vxlan") },
			func() { w.vsctl(n2, "set", "open", ".", "external_ids:ovn-encap-type=geneve") }, "n1", "tunnel", false},
		{"no ovn-controller", func() { w.exit(n2) }, func() { w.restart("n2/ovn-controller") }, "n2", "binding", false},
	} {
		flaw.breaks()
		wait.NoError(t, 20*time.Second, flaw.name+": packets to be lost", func() error {
			if reached() == nil {
				return errors.New("they pass")
			}
			return nil
		})
		if r, text := w.follow("a", "c:8080"); r.First() == nil || r.First().At != flaw.at ||
			r.First().What != flaw.what {
			t.Errorf("%s: want a wrong %s at %s:\n%s", flaw.name, flaw.what, flaw.at, text)
		}
		if got := w.traced(a, c.addr); flaw.traced != (got == "") {
			t.Errorf("%s: ovn-trace brings the packet to port %q", flaw.name, got)
		}
		flaw.mends()
		wait.NoError(t, 20*time.Second, flaw.name+" is mended: packets", reached)
	}

	w.in(n1, "ip", "route", "del", pods.String())
	if r, text := w.follow("n1", "c:8080"); r.First() == nil || r.First().What != "route" {
		t.Errorf("the node's route is gone:\n%s", text)
	}
	w.stopController()
	nbctl("lb-del", "default/web tcp")
	if r, text := w.follow("a", "web:80"); r.First() == nil || r.First().What != "service" || r.First().At != "n1" {
		t.Errorf("a load balancer is gone:\n%s", text)
	}
}
