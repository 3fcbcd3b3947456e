package networks

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// checkLogical compares the way of packets through OVN that `porthole path` computes with that of ovn-trace, which
// follows them through the logical flows of the southbound database.
func (f pathCheck) checkLogical() {
	f.t.Helper()
	all := f.gather()
	for _, from := range nodeNames {
		for _, to := range nodeNames {
			_, text := f.follow(all, "a-"+from, "b-"+to+":8080")
			for _, port := range []string{"a-" + from, "b-" + to} {
				if want := "logical port " + ovnet.PodPort("default", port) + " "; !strings.Contains(text, want) {
					f.t.Errorf("want %q in\n%s", want, text)
				}
			}
			if want := " geneve to "; strings.Contains(text, want) != (from != to) {
				f.t.Errorf("from %s to %s, %q:\n%s", from, to, want, text)
			}
			if got, want := f.traced("a-"+from, f.addr["b-"+to]), ovnet.PodPort("default", "b-"+to); got != want {
				f.t.Errorf("ovn-trace brings packets from a-%s to b-%s to port %q, want %q as porthole path says", from,
					to, got, want)
			}
		}
	}
}

// traced returns the port by which ovn-trace lets a packet of TCP from a pod leave OVN; "" if it is dropped.
func (f pathCheck) traced(from string, to netip.Addr) string {
	f.t.Helper()
	self, node := f.addr[from], f.pods[from].Spec.NodeName
	subnet := netip.MustParsePrefix(f.podRange(node))
	next := to
	if !subnet.Contains(to) {
		next = ovnet.RouterAddr(subnet)
	}
	out, err := ovn("ovn-trace", "sb.sock", "--minimal", node,
		fmt.Sprintf(
			`inport == "%s" && eth.src == %s && eth.dst == %s && ip4.src == %s && ip4.dst == %s && ip.ttl == 64 && tcp && tcp.dst == 8080`,
			ovnet.PodPort("default", from), ovnet.MACOf(self), ovnet.MACOf(next), self, to))
	if err != nil {
		f.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out, `output("`)
	port, _, _ := strings.Cut(rest, `"`)
	return port
}

// ovnFlaws are those of OVN. The agents must be frozen, so that they do not repair them.
func (f pathCheck) ovnFlaws() []flaw {
	vsctl := func(node string, args ...string) func() error {
		return func() error { _, err := ovs(node, args...); return err }
	}
	nbctl := func(args ...string) func() error {
		return func() error {
			_, err := ovn("ovn-nbctl", "nb.sock", append([]string{"--wait=hv"}, args...)...)
			return err
		}
	}
	link := func(node, port string) string {
		out, err := ovs(node, "--bare", "--columns=name", "find", "Interface", "external_ids:iface-id="+port)
		if err != nil || strings.TrimSpace(out) == "" {
			f.t.Fatalf("the interface of port %s on %s: %v, %q", port, node, err, out)
		}
		return strings.TrimSpace(out)
	}

	lin, win := link("lin01", "default_a-lin01"), link("win01", "default_a-win01")
	match := "ip4.dst == " + f.addr["a-win01"].String()
	fromNode := func() error { return ping(platform.NetnsPath("porthole-lin01"), f.addr["a-win01"], probe{}).err() }
	const cluster = "10.244.0.0/16"
	gateway := ovnet.RouterAddr(netip.MustParsePrefix(f.podRange("lin01"))).String()
	return []flaw{
		{"an ACL drops them", "a-lin01", "a-win01", nbctl("acl-add", "lin01", "from-lport", "1000", match, "drop"),
			nbctl("acl-del", "lin01"),
			f.pinged("a-lin01", "a-win01"), "lin01", "acl"},
		{"an ACL of the far switch drops them", "a-lin01", "a-win01",
			nbctl("acl-add", "win01", "to-lport", "1000", `outport == "default_a-win01" && ip4`, "drop"),
			nbctl("acl-del", "win01"),
			f.pinged("a-lin01", "a-win01"), "lin01", "acl"},
		{"a port is disabled", "a-lin01", "a-win01", nbctl("lsp-set-enabled", "default_a-win01", "disabled"),
			nbctl("lsp-set-enabled", "default_a-win01", "enabled"),
			f.pinged("a-lin01", "a-win01"), "win01", "port"},
		{"an interface is no port", "a-lin01", "a-win01",
			vsctl("win01", "remove", "interface", win, "external_ids", "iface-id"),
			vsctl("win01", "set", "interface", win, "external_ids:iface-id=default_a-win01"),
			f.pinged("a-lin01", "a-win01"), "win01", "interface"},
		{"an interface is down", "a-lin01", "a-win01", ip("lin01", "link", "set", lin, "down"),
			ip("lin01", "link", "set", lin, "up"), f.pinged("a-lin01", "a-win01"), "lin01", "interface"},
		{"the end of a tunnel is nowhere", "a-lin01", "a-win01",
			vsctl("win01", "set", "open", ".", "external_ids:ovn-encap-ip=10.98.0.99"),
			vsctl("win01", "set", "open", ".", "external_ids:ovn-encap-ip=10.98.0.21"), f.pinged("a-lin01", "a-win01"),
			"lin01", "tunnel"},
		{"a kind of tunnel of its own", "a-lin01", "a-win01",
			vsctl("win01", "set", "open", ".", "external_ids:ovn-encap-type=vxlan"),
			vsctl("win01", "set", "open", ".", "external_ids:ovn-encap-type=geneve"), f.pinged("a-lin01", "a-win01"),
			"lin01", "tunnel"},
		{"the route of a node is gone", "lin01", "a-win01", ip("lin01", "route", "del", cluster),
			ip("lin01", "route", "add", cluster, "via", gateway, "proto", "201"), fromNode, "lin01", "route"},
	}
}

// testOVNFlaws breaks what ovnFlaws lists, and takes a load balancer away, which the controller makes again once it
// goes on.
func (f pathCheck) testOVNFlaws() {
	f.t.Helper()
	thaw := f.freeze("lin01/routes", "win01/routes", "win02/routes", "lin01/ovn-control-plane")
	for _, flaw := range f.ovnFlaws() {
		f.checkFlaws(f.settled(flaw))
	}
	balancer := flaw{"a load balancer is gone", "a-win01", "all", func() error {
		_, err := ovn("ovn-nbctl", "nb.sock", "--wait=hv", "lb-del", "default/all tcp")
		return err
	},
		func() error { thaw(); return nil }, func() error {
			_, err := f.ask("a-win01", fetch("http://"+f.clusterIP("all")+"/")+"&timeout=1s")
			return err
		}, "win01", "service"}
	f.checkFlaws(f.settled(balancer))
}

// settled returns a flaw whose breaks waits until it stops packets: OVN's programs carry changes out one after the
// other.
func (f pathCheck) settled(one flaw) flaw {
	breaks := one.breaks
	one.breaks = func() error {
		if err := breaks(); err != nil {
			return err
		}
		wait.NoError(f.t, 20*time.Second, one.name+": packets to be stopped", func() error {
			if one.reaches() == nil {
				return errors.New("they pass")
			}
			return nil
		})
		return nil
	}
	return one
}

// checkOVNPaths compares what `porthole path` says of OVN with packets, and in the long tests breaks things.
func (f pathCheck) checkOVNPaths() {
	f.t.Helper()
	f.checkComputed()
	f.checkLogical()
	if os.Getenv("PORTHOLE_NETWORKS") == "long" {
		f.testOVNFlaws()
	}
}
