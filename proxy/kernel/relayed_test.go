package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// switchboard is a relay that only records calls.
type switchboard struct {
	fails bool
	lines map[string]string
}

func (s *switchboard) Ensure(key service.Key, at netip.Addr, to []netip.AddrPort, affinity time.Duration) (uint16,
	error) {
	if s.fails {
		return 0, errors.New("no such address")
	}
	s.lines[key.String()] = fmt.Sprint(at, to, affinity)
	return 20080, nil
}

func (s *switchboard) Release(key service.Key) { delete(s.lines, key.String()) }

// Backends of different ports are served by the relay at the host's own endpoint, and by HNS again once they listen on
// one port. If the relay cannot listen, the most common port is served and a problem is reported.
func TestBackendsOfDifferentPorts(t *testing.T) {
	network := net1
	network.Subnets = []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.2.0/24"),
		Gateway: netip.MustParseAddr("10.244.2.1")}}
	board := &switchboard{lines: map[string]string{}}
	onNetwork(t, ws2022, network, func(b *bench) {
		b.adjust = func(o *Options) { o.Relay.Relay = board }
		b.host.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
			*eps = append(*eps, local("10.244.2.2"))
		})
	}, func(b *bench) {
		mixed := clusterIP("10.96.0.10:80", "10.244.3.1:8080", "10.244.3.2:8081", "10.244.3.3:8081")
		b.want(mixed)
		b.soon()
		const host = "endpoint local 10.244.2.2 \"\"\n"
		relayed := host + "lb 10.96.0.10 80/tcp->20080 10.244.2.2\n"
		b.expectHost(relayed)
		b.expectState(mixed.Service, health.Programmed, "")
		if got :=
			board.lines[mixed.Key.String()]; got != "10.244.2.2 [10.244.3.1:8080 10.244.3.2:8081 10.244.3.3:8081] 0s" ||
			len(b.seen().status[mixed.Service].Problems) != 0 {
			t.Errorf("%s, %v", got, b.seen().status[mixed.Service].Problems)
		}

		b.edit(func(_ *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			if (*lbs)[0].DSR {
				t.Error("direct server return to the relay")
			}
		})
		b.restart()
		writes := b.writes()
		b.pass(time.Minute)
		if b.writes() != writes {
			t.Error("a restart writes")
		}

		b.want(clusterIP("10.96.0.10:80", "10.244.3.1:8080"))
		b.soon()
		if len(board.lines) != 0 || !strings.Contains(b.host.Dump(), "lb 10.96.0.10 80/tcp->8080 10.244.3.1\n") {
			t.Errorf("%v\n%s", board.lines, b.host.Dump())
		}

		b.want(mixed)
		b.soon()
		b.want()
		b.soon()
		b.expectHost(host)
		if len(board.lines) != 0 {
			t.Errorf("%v is left", board.lines)
		}

		board.fails = true
		b.want(mixed)
		b.soon()
		problems := b.seen().status[mixed.Service].Problems
		if !strings.Contains(b.host.Dump(), "80/tcp->8081 10.244.3.2,10.244.3.3") || len(problems) != 1 ||
			problems[0].Reason != "MixedTargetPorts" {
			t.Errorf("%s%v", b.host.Dump(), problems)
		}
	})
}

// On an overlay network the relay listens at the node's address, if the options let it, and load balancers reach it
// from the source address; otherwise a problem says which option would help.
func TestBackendsOfDifferentPortsOnOverlay(t *testing.T) {
	board := &switchboard{lines: map[string]string{}}
	mixed := clusterIP("10.96.0.10:80", "10.244.3.1:8080", "10.244.3.2:8081", "10.244.3.3:8081")
	onNetwork(t, ws2022, overlay, func(b *bench) {
		b.adjust = func(o *Options) {
			o.SourceVIP, o.HostMAC, o.EnableDSR, o.Relay = netip.MustParseAddr("10.244.2.2"), "02:fc:00:00:00:01", true,
				RelayOptions{board, true}
		}
	}, func(b *bench) {
		b.want(mixed)
		b.soon()
		b.expectHost(strings.TrimLeft(`
endpoint local 10.244.2.2 "porthole-source-vip"
endpoint remote 10.96.0.10 "porthole-remote-10.96.0.10"
endpoint remote 192.0.2.2 "porthole-remote-192.0.2.2"
lb 10.96.0.10 80/tcp->20080 192.0.2.2
`, "\n"))
		b.expectState(mixed.Service, health.Programmed, "")
		if got :=
			board.lines[mixed.Key.String()]; got != "192.0.2.2 [10.244.3.1:8080 10.244.3.2:8081 10.244.3.3:8081] 0s" ||
			len(b.seen().status[mixed.Service].Problems) != 0 {
			t.Errorf("%s, %v", got, b.seen().status[mixed.Service].Problems)
		}
		b.edit(func(eps *[]hns.Endpoint, lbs *[]hns.LoadBalancer) {
			if lb := (*lbs)[0]; lb.DSR || lb.SourceVIP.String() != "10.244.2.2" {
				t.Errorf("direct server return %t, source %s", lb.DSR, lb.SourceVIP)
			}
			for _, e := range *eps {
				if e.Remote && (e.Provider != overlay.Management || e.MAC != "02:fc:00:00:00:01") {
					t.Errorf("%v is at %s, %s", e.Addrs, e.Provider, e.MAC)
				}
			}
		})

		b.restart()
		writes := b.writes()
		b.pass(time.Minute)
		if b.writes() != writes {
			t.Error("a restart writes")
		}
		b.want()
		b.soon()
		b.expectHost("endpoint local 10.244.2.2 \"porthole-source-vip\"\n")
	})

	onNetwork(t, ws2022, overlay, func(b *bench) {
		b.adjust = func(o *Options) { o.SourceVIP, o.Relay.Relay = netip.MustParseAddr("10.244.2.2"), board }
	}, func(b *bench) {
		b.want(mixed)
		b.soon()
		problems := b.seen().status[mixed.Service].Problems
		if len(problems) != 1 || problems[0].Reason != "MixedTargetPorts" ||
			!strings.Contains(problems[0].Text, "--overlay-relay") {
			t.Errorf("problems %+v", problems)
		}
	})
}
