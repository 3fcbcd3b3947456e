package kernel

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

var overlay = hns.Network{
	ID: "net-1", Name: "porthole", Type: hns.Overlay, Management: netip.MustParseAddr("192.0.2.2"),
	Subnets:       []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"), Gateway: netip.MustParseAddr("10.244.2.1")}},
	RemoteSubnets: []hns.RemoteSubnet{{Prefix: netip.MustParsePrefix("10.244.3.0/24"), Provider: netip.MustParseAddr("192.0.2.33")}},
}

func outside(kind service.Kind, vip string, localOnly bool, backends ...string) service.Frontend {
	f := clusterIP(vip, backends...)
	f.Kind, f.LocalOnly = kind, localOnly
	return f
}

// TestKinds: the load balancer of each kind of frontend is the one that upstream's proxy was seen to make.
func TestKinds(t *testing.T) {
	facts := factsOf(ws2022)
	facts.NodeAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	facts.NodeAccess = true
	onOverlay := facts
	onOverlay.Network, onOverlay.SourceVIP = overlay, netip.MustParseAddr("10.244.2.2")
	preserved := outside(service.Ingress, "203.0.113.7:80", true, "local 10.244.2.5:80")
	preserved.PreserveDestination = true
	elsewhere := outside(service.Ingress, "203.0.113.7:80", true)
	elsewhere.InternalBackends = []service.Backend{at("10.244.3.5:80")}
	nodeOnly := nodePort(30080)
	nodeOnly.LocalOnly, nodeOnly.InternalBackends = true, elsewhere.InternalBackends
	nodeLocal := nodePort(30080, "local 10.244.2.5:80")
	nodeLocal.LocalOnly, nodeLocal.InternalBackends = true, []service.Backend{at("local 10.244.2.5:80"), at("10.244.3.5:80")}
	var many []string
	for i := range 1030 {
		many = append(many, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 245, byte(i / 250), byte(i%250 + 1)}), 80).String())
	}
	six := clusterIP("[fd00::10]:80", "[fd00:1::1]:80")
	for _, c := range []struct {
		name  string
		f     service.Frontend
		facts Facts
		want  []string
		limit string
	}{
		{"node port", nodePort(30080, "10.244.3.5:80"), facts,
			[]string{"create endpoint 10.244.3.5", "create lb node 30080/tcp -> 10.244.3.5:80 flags=18", "create lb 192.0.2.2 30080/tcp -> 10.244.3.5:80 flags=2"}, ""},
		{"external IP", outside(service.ExternalIP, "203.0.113.7:80", false, "local 10.244.2.5:80"), facts,
			[]string{"create lb 203.0.113.7 80/tcp -> 10.244.2.5:80 flags=18"}, ""},
		{"ingress, policy local", outside(service.Ingress, "203.0.113.7:80", true, "local 10.244.2.5:80"), facts,
			[]string{"create lb 203.0.113.7 80/tcp -> 10.244.2.5:80 dsr flags=16"}, ""},
		{"ingress, preserved destination", preserved, facts, []string{"create lb 203.0.113.7 80/tcp -> 10.244.2.5:80 dsr flags=28"}, ""},
		{"ingress, policy local, pods elsewhere: for clients in the cluster", elsewhere, facts,
			[]string{"create endpoint 10.244.3.5", "create lb 203.0.113.7 80/tcp -> 10.244.3.5:80 dsr"}, ""},
		{"node port, policy local, pods elsewhere", nodeOnly, facts, nil, ""},
		{"node port, policy local", nodeLocal, facts,
			[]string{"create lb node 30080/tcp -> 10.244.2.5:80 dsr flags=18", "create lb 192.0.2.2 30080/tcp -> 10.244.2.5:80 dsr flags=2"}, ""},
		{"overlay", clusterIP("10.96.0.10:80", "local 10.244.2.5:80", "10.244.3.5:80"), onOverlay,
			[]string{"create endpoint 10.244.2.2", "create endpoint 10.96.0.10", "create endpoint 10.244.3.5",
				"create lb 10.96.0.10 80/tcp -> 10.244.2.5,10.244.3.5:80 dsr source=10.244.2.2"}, ""},
		{"overlay, a backend outside: the node's address", clusterIP("10.96.0.1:443", "192.0.2.9:6443"), onOverlay,
			[]string{"create endpoint 10.244.2.2", "create endpoint 10.96.0.1", "create endpoint 192.0.2.9",
				"create lb 10.96.0.1 443/tcp -> 192.0.2.9:6443 dsr source=192.0.2.2"}, ""},
		{"IPv6 on an overlay network", six, onOverlay, nil, "NoIPv6"},
		{"too many backends", clusterIP("10.96.0.10:80", many...), facts, nil, "BackendLimit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wanted := append([]service.Frontend{*adapted(&c.f)}, nodeAccessOf(&c.f, &c.facts)...)
			listed := Listed{Endpoints: []hns.Endpoint{local("10.244.2.5")}}
			var got []string
			for _, op := range Plan(wanted, listed, c.facts).Ops {
				got = append(got, op.String())
			}
			if c.limit == "" {
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("plan (-want +got):\n%s", diff)
				}
				return
			}
			v := view{x: indexOf(listed), facts: &c.facts}.frontend(&wanted[0])
			if len(v.limits) != 1 || v.limits[0].reason != c.limit || !v.right() && c.limit == "NoIPv6" {
				t.Errorf("%+v", v.limits)
			}
			if c.limit == "BackendLimit" && len(v.ops[len(v.ops)-1].Backends) != maxBackends {
				t.Errorf("%d backends", len(v.ops[len(v.ops)-1].Backends))
			}
		})
	}
}

// An overlay network: what load balancers need beside their backends is made once, and stays.
func TestOverlay(t *testing.T) {
	onNetwork(t, ws2022, overlay, func(b *bench) {
		b.adjust = func(o *Options) {
			o.SourceVIP, o.HostMAC, o.NoNodeAccess = netip.MustParseAddr("10.244.2.2"), "02:fc:00:00:00:01", false
		}
	}, func(b *bench) {
		web := clusterIP("10.96.0.10:80", "10.244.3.5:80")
		b.want(web, nodePort(30080, "10.244.3.5:80"))
		b.soon()
		want := strings.TrimLeft(`
endpoint local 10.244.2.2 "porthole-source-vip"
endpoint remote 10.244.3.5 "porthole-remote-10.244.3.5"
endpoint remote 10.96.0.10 "porthole-remote-10.96.0.10"
lb 10.96.0.10 80/tcp->80 10.244.3.5
lb 192.0.2.2 30080/tcp->80 10.244.3.5
lb node 30080/tcp->80 10.244.3.5
`, "\n")
		b.expectHost(want)
		b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			for _, e := range *eps {
				provider := "192.0.2.2"
				if e.Addrs[0].String() == "10.244.3.5" {
					provider = "192.0.2.33"
				}
				if e.Remote && e.Provider.String() != provider {
					t.Errorf("%v is at %v, wanted %s", e.Addrs, e.Provider, provider)
				}
			}
			for _, lb := range *lbs {
				if lb.SourceVIP.String() != "10.244.2.2" {
					t.Errorf("%v has source %v", lb.VIPs, lb.SourceVIP)
				}
			}
		})
		b.restart()
		writes := b.writes()
		b.pass(65 * time.Second)
		if n := b.writes() - writes; n != 0 {
			t.Errorf("%d writes after a restart", n)
		}
		// The endpoints that no load balancer names come back too.
		b.edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer) {
			*eps = slices.DeleteFunc(*eps, func(e hns.Endpoint) bool { return e.Addrs[0].String() != "10.244.3.5" })
		})
		b.pass(31 * time.Second)
		b.expectHost(want)
		b.want()
		b.soon()
		b.expectHost("endpoint local 10.244.2.2 \"porthole-source-vip\"\n")
	})
}

// A node joins an overlay: its pods may be wanted before the next survey has read the way to it.
func TestOverlayWayToNewNode(t *testing.T) {
	onNetwork(t, ws2022, overlay, func(b *bench) {
		b.adjust = func(o *Options) { o.SourceVIP = netip.MustParseAddr("10.244.2.2") }
	}, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80"))
		b.soon()
		b.host.Edit(func(_ *[]hns.Endpoint, _ *[]hns.LoadBalancer, networks *[]hns.Network) {
			(*networks)[0].RemoteSubnets = append(slices.Clone(overlay.RemoteSubnets),
				hns.RemoteSubnet{Prefix: netip.MustParsePrefix("10.244.4.0/24"), Provider: netip.MustParseAddr("192.0.2.44")})
		})
		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80", "10.244.4.5:80"), clusterIP("10.96.0.11:443", "192.0.2.9:6443"))
		b.soon()
		providers := map[string]string{}
		b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			for _, e := range *eps {
				providers[e.Addrs[0].String()] = e.Provider.String()
			}
			for _, lb := range *lbs {
				providers[lb.VIPs[0].String()+" source"] = lb.SourceVIP.String()
			}
		})
		for addr, want := range map[string]string{"10.244.3.5": "192.0.2.33", "10.244.4.5": "192.0.2.44", "192.0.2.9": "192.0.2.2",
			"10.96.0.10 source": "10.244.2.2", "10.96.0.11 source": "192.0.2.2"} {
			if providers[addr] != want {
				t.Errorf("%s: %s, wanted %s", addr, providers[addr], want)
			}
		}
	})
}

// The source address belongs to somebody: HNS refuses it, another one is taken, and services work.
func TestSourceAddressThatHNSRefuses(t *testing.T) {
	onNetwork(t, ws2022, overlay, func(b *bench) {
		b.adjust = func(o *Options) { o.SourceVIP = netip.MustParseAddr("10.244.2.2") }
		b.host.Refuse = func(kind string, e *hns.Endpoint, _ *hns.LoadBalancer) error {
			if e != nil && !e.Remote && e.Addrs[0].String() == "10.244.2.2" {
				return &hns.Error{Doing: kind, Class: hns.Invalid, Code: 0x803b002f, Err: errRefused}
			}
			return nil
		}
	}, func(b *bench) {
		web := clusterIP("10.96.0.10:80", "10.244.3.5:80")
		b.want(web)
		b.pass(40 * time.Second)
		b.expectState(web.Service, health.Programmed, "")
		if dump := b.host.Dump(); !strings.Contains(dump, "endpoint local 10.244.2.254 ") {
			t.Error(dump)
		}
	})
}

var errRefused = errors.New("an address provided is invalid or reserved")
