package userspace

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

var update = flag.Bool("update", false, "rewrite the golden file")

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// front returns a frontend: "10.96.0.10:53/UDP" or "node:30080/TCP", with backends.
func front(name, at string, backends ...string) service.Frontend {
	f := service.Frontend{Service: name, Kind: service.ClusterIP}
	at, protocol, _ := strings.Cut(at, "/")
	f.Protocol = hns.TCP
	if protocol == "UDP" {
		f.Protocol = hns.UDP
	}
	if port, node := strings.CutPrefix(at, "node:"); node {
		f.Kind, f.Port = service.NodePort, netip.MustParseAddrPort("0.0.0.0:"+port).Port()
	} else {
		ap := netip.MustParseAddrPort(at)
		f.VIP, f.Port, f.IPv6 = ap.Addr(), ap.Port(), ap.Addr().Is6()
	}
	for _, b := range backends {
		ap := netip.MustParseAddrPort(b)
		f.Backends = append(f.Backends, service.Backend{Addr: ap.Addr(), Port: ap.Port()})
	}
	return f
}

// bare is a host with one address, and an interface for services that has an address of another program.
func bare() Observed {
	return Observed{
		Interfaces: []string{"lo", "eth0", "svc0"},
		Addresses: []platform.HostAddress{
			{Interface: "lo", Addr: addr("127.0.0.1"), Bits: 8}, {Interface: "lo", Addr: addr("::1"), Bits: 128},
			{Interface: "eth0", Addr: addr("10.99.0.21"), Bits: 24},
			{Interface: "eth0", Addr: addr("fe80::1"), Bits: 64},
			{Interface: "svc0", Addr: addr("198.51.100.9"), Bits: 32},
		},
		Owned: map[netip.Addr]string{},
		Relay: relay.State{Frontends: map[string]relay.Config{}, Listeners: map[relay.Endpoint]string{},
			Open: map[netip.Addr]int{}},
	}
}

func facts() Facts {
	return Facts{Interface: "svc0", Reserved: []netip.Addr{addr("10.99.0.11")}, Now: now, Linger: time.Minute}
}

func everything() []service.Frontend {
	sticky := front("default/sticky", "10.96.0.20:80", "10.244.1.5:8080")
	sticky.Affinity, sticky.AffinityTimeout = true, 90*time.Second
	local := front("default/web", "node:30080/TCP")
	local.LocalOnly, local.Backends = true, nil
	local.InternalBackends = []service.Backend{{Addr: addr("10.244.2.7"), Port: 80}}
	ranges := front("default/web", "203.0.113.5:80", "10.244.1.5:80")
	ranges.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	return []service.Frontend{
		front("kube-system/kube-dns", "10.96.0.10:53/UDP", "10.244.1.2:53", "10.244.2.2:53"),
		front("kube-system/kube-dns", "10.96.0.10:53/TCP", "10.244.1.2:53", "10.244.2.2:53"),
		sticky, local, ranges,
		front("default/empty", "10.96.0.30:80"),
		front("default/foreign", "198.51.100.9:80", "10.244.1.5:80"),
		front("default/six", "[fd00::10]:80", "[fd00:1::5]:80"),
	}
}

// carryOut returns what the host and the relay have after a plan whose operations all succeed.
func carryOut(seen Observed, plan Changes) Observed {
	for _, op := range plan.Ops {
		switch op.Verb {
		case Add:
			seen.Addresses = append(seen.Addresses,
				platform.HostAddress{Interface: op.Interface, Addr: op.Addr, Bits: op.Addr.BitLen()})
			seen.Owned[op.Addr] = op.Interface
		case Remove:
			var left []platform.HostAddress
			for _, a := range seen.Addresses {
				if a.Addr != op.Addr || a.Interface != op.Interface {
					left = append(left, a)
				}
			}

			seen.Addresses = left
			delete(seen.Owned, op.Addr)
		case Forget:
			delete(seen.Owned, op.Addr)
		case Serve:
			seen.Relay.Frontends[op.Name] = op.Config
		case Drop:
			delete(seen.Relay.Frontends, op.Name)
		case Listen:
			seen.Relay.Listeners[op.At] = op.Name
		case Close:
			delete(seen.Relay.Listeners, op.At)
		}
	}

	seen.Idle = plan.Idle
	return seen
}

// TestPlanGolden prints plans one after the other; `go test -run Golden -update` rewrites the file.
func TestPlanGolden(t *testing.T) {
	var text strings.Builder
	seen := bare()
	step := func(what string, wanted []service.Frontend, facts Facts) {
		plan := Plan(wanted, seen, facts)
		text.WriteString("# " + what + "\n" + plan.String())
		for _, f := range wanted {
			if why, bad := plan.Problems[f.Key]; bad {
				text.WriteString("! " + f.Service + " " + f.Key.String() + ": " + why.Reason + ": " + why.Text + "\n")
			}
		}
		seen = carryOut(seen, plan)
		if again := Plan(wanted, seen, facts); len(again.Ops) > 0 {
			t.Errorf("%s: a second plan is not empty:\n%s", what, again)
		}
	}
	step("an empty host", everything(), facts())
	less := everything()[2:]
	less[0].Backends = less[0].Backends[:0:0]
	step("no DNS any more, and nobody behind default/sticky", less, facts())
	seen.Addresses = seen.Addresses[:5]
	step("somebody removed all addresses", less, facts())
	seen.Addresses = append(seen.Addresses, platform.HostAddress{Interface: "eth0", Addr: addr("10.99.0.22"), Bits: 24})
	step("the host has one more address", less, facts())
	renamed := facts()
	renamed.Interface, seen.Interfaces = "svc1", append(seen.Interfaces, "svc1")
	step("another interface is named", less, renamed)
	few := facts()
	few.Interface, few.NodePorts = "svc1", []netip.Prefix{netip.MustParsePrefix("10.99.0.21/32")}
	step("node ports at one address", less, few)
	bad := []service.Frontend{front("a/reserved", "10.99.0.11:443", "10.244.1.1:1"),
		front("a/loop", "127.0.0.1:80", "10.244.1.1:1"),
		front("a/first", "10.99.0.21:30080", "10.244.1.1:1"), front("a/second", "node:30080/TCP", "10.244.1.2:1")}
	step("frontends that cannot be", bad, few)
	missing := few
	missing.Interface = "gone0"
	step("the interface is gone", everything()[:1], missing)
	step("nothing at all", nil, facts())

	golden := filepath.Join("testdata", "plans.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.String(); got != strings.ReplaceAll(string(want), "\r", "") {
		t.Errorf("plans differ from %s:\n%s", golden, got)
	}
	for _, a := range seen.Addresses {
		if _, ours := seen.Owned[a.Addr]; ours {
			t.Errorf("%s is left", a.Addr)
		}
	}
}

// TestPlanLinger: an address whose service is gone stays while connections to it are open, for a limited time.
func TestPlanLinger(t *testing.T) {
	vip := addr("10.96.0.20")
	wanted := []service.Frontend{front("default/web", "10.96.0.20:80", "10.244.1.5:80")}
	seen := carryOut(bare(), Plan(wanted, bare(), facts()))
	seen.Relay.Open[vip] = 1
	f := facts()
	plan := Plan(nil, seen, f)
	if text := plan.String(); strings.Contains(text, "remove") || !strings.Contains(text, "close") {
		t.Errorf("with an open connection:\n%s", text)
	}

	seen = carryOut(seen, plan)
	f.Now = now.Add(f.Linger - time.Second)
	if plan = Plan(nil, seen, f); len(plan.Ops) > 0 {
		t.Errorf("before the time:\n%s", plan)
	}

	closed := seen
	closed.Relay.Open = nil
	if plan := Plan(nil, closed, f); plan.String() != "remove address 10.96.0.20 from svc0\n" {
		t.Errorf("with no connection any more:\n%s", plan)
	}

	back := Plan(wanted, seen, f)
	if strings.Contains(back.String(), "address") || len(back.Idle) > 0 {
		t.Errorf("when the service is back:\n%s%v", back, back.Idle)
	}

	f.Now = now.Add(f.Linger)
	if plan = Plan(nil, seen, f); plan.String() != "remove address 10.96.0.20 from svc0\n" {
		t.Errorf("after the time:\n%s", plan)
	}
}

// TestPlanFields fails if a field is added to a frontend, since the plan may have to use it.
func TestPlanFields(t *testing.T) {
	if n := reflect.TypeFor[service.Frontend]().NumField(); n != 11 {
		t.Errorf("service.Frontend has %d fields; the plan was written for 11", n)
	}
}
