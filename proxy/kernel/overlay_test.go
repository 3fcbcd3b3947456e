package kernel

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
)

var overlay = hns.Network{
	ID: "net-1", Name: "porthole", Type: hns.Overlay, Management: netip.MustParseAddr("192.0.2.2"),
	Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"),
		Gateway: netip.MustParseAddr("10.244.2.1")}},
	RemoteSubnets: []hns.RemoteSubnet{{Prefix: netip.MustParsePrefix("10.244.3.0/24"),
		Provider: netip.MustParseAddr("192.0.2.33")}},
}

// An overlay network: the endpoints that load balancers need beside their backends are created once, and stay.
func TestOverlay(t *testing.T) {
	onNetwork(t, ws2022, overlay, func(b *bench) {
		b.adjust = func(o *Options) {
			o.SourceVIP, o.HostMAC, o.NodeAccess = netip.MustParseAddr("10.244.2.2"), "02:fc:00:00:00:01", true
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
		// Endpoints that no load balancer names are created again too.
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

// A node joins an overlay: services may have its pods before the next full check has read its remote subnet.
func TestOverlayOfNewNode(t *testing.T) {
	onNetwork(t, ws2022, overlay, func(b *bench) {
		b.adjust = func(o *Options) { o.SourceVIP = netip.MustParseAddr("10.244.2.2") }
	}, func(b *bench) {
		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80"))
		b.soon()
		b.host.Edit(func(_ *[]hns.Endpoint, _ *[]hns.LoadBalancer, networks *[]hns.Network) {
			(*networks)[0].RemoteSubnets = append(slices.Clone(overlay.RemoteSubnets),
				hns.RemoteSubnet{Prefix: netip.MustParsePrefix("10.244.4.0/24"),
					Provider: netip.MustParseAddr("192.0.2.44")})
		})
		b.want(clusterIP("10.96.0.10:80", "10.244.3.5:80", "10.244.4.5:80"),
			clusterIP("10.96.0.11:443", "192.0.2.9:6443"))
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
		for addr, want := range map[string]string{"10.244.3.5": "192.0.2.33", "10.244.4.5": "192.0.2.44",
			"192.0.2.9":         "192.0.2.2",
			"10.96.0.10 source": "10.244.2.2", "10.96.0.11 source": "192.0.2.2"} {
			if providers[addr] != want {
				t.Errorf("%s: %s, wanted %s", addr, providers[addr], want)
			}
		}
	})
}

// HNS refuses the source address, since it belongs to another endpoint. Another one is used, and services work.
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
