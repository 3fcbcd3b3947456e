package dataplane

import (
	"fmt"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/desired"
)

// The rules of one port are those that its packets meet, with their counts.
// Row 1.21.
func TestPacketsCounters(t *testing.T) {
	w := newWorld(t)
	client := w.a.pod(11, func(e *desired.Endpoint) {
		e.ACLs = []desired.ACL{
			{Allow: true, Priority: 100, Protocols: []uint8{6},
				RemotePorts: []desired.PortRange{{First: 80, Last: 81}}},
			{Priority: 200, Protocols: []uint8{17}, Remote: prefixList(outside + "/32")},
			{In: true, Priority: 300, Protocols: []uint8{17}},
		}
		e.PortMappings = []desired.PortMapping{{Protocol: 6, ExternalPort: 8088, InternalPort: 80}}
	})
	server := w.a.pod(12)
	w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("dsr", "10.96.0.1", 80, 8080, true, w.a.epID(12)),
		lb("nat", "10.96.0.2", 80, 8080, false, w.a.epID(12)),
		lb("elsewhere", "198.51.100.7", 80, 8080, false, w.a.epID(12))}
	w.a.apply()
	w.serve(server, "near", 8080)
	w.serve(client, "client", 80)
	w.serve("out", "out", 80)
	ask := func(n int, proto, from, addr string) {
		for range n {
			w.get(from, proto, addr)
		}
	}
	ask(3, "tcp", client, outside+":80")
	ask(1, "udp", client, outside+":80")
	ask(2, "tcp", client, "10.99.0.1:80")
	ask(4, "tcp", client, "10.96.0.1:80")
	ask(1, "tcp", client, "10.96.0.2:80")
	ask(5, "tcp", "out", "10.99.0.21:8088")

	want := `acl out priority 100 protocol 6 remote port 80-81: allow 5
acl out priority 200 protocol 17 remote 203.0.113.1/32: block 1
load balancer out tcp 10.96.0.1:80: to one of 1 backends, direct server return 4 shared
load balancer out udp 10.96.0.1:80: to one of 1 backends, direct server return 0 shared
load balancer out tcp 10.96.0.2:80: to one of 1 backends 1 shared
load balancer out udp 10.96.0.2:80: to one of 1 backends 0 shared
route out to 10.96.0.0/16: through the host's stack 1
outbound nat out to 10.244.0.0/16, 10.96.0.0/16, 10.99.0.0/24: unchanged 2
outbound nat out to all else outside: source 10.99.0.21 3
port mapping in tcp port 8088 of the host: to port 80 5
acl in priority 300 protocol 17: block 0
`
	if got := w.a.rulesText(w.a.epID(11)); got != want {
		t.Errorf("the client's rules are\n%swant\n%s", got, want)
	}
	if got := w.a.rulesText(w.a.epID(12)); !strings.Contains(got,
		"load balancer in tcp 10.96.0.1:80: to port 8080 of this backend 4\n") {
		t.Errorf("the server's rules are\n%s", got)
	}
	if sent := w.a.dp.Traffic(w.a.epID(11)); sent.PacketsSent < 30 || sent.BytesSent < 1000 ||
		sent.PacketsReceived < 30 || sent.BytesReceived < 1000 {
		t.Errorf("the client's traffic is %+v", sent)
	}
	if none := w.a.dp.Traffic("nobody"); none != (desired.Traffic{}) {
		t.Errorf("the traffic of nobody is %+v", none)
	}
	if drift, err := w.a.dp.Verify(w.ctx, w.a.desired); err != nil || len(drift) > 0 {
		t.Errorf("counting is a drift: %v, %v", drift, err)
	}

	w.nft("delete element ip hns aclout { 10.244.1.11 }")
	if got := w.a.rulesText(w.a.epID(11)); !strings.Contains(got, "allow 0 missing\n") {
		t.Errorf("once the kernel has lost a rule:\n%s", got)
	}
	if _, ok, err := w.a.dp.PortRules(w.ctx, w.a.desired, "nobody"); ok || err != nil {
		t.Errorf("rules of nobody: %v, %v", ok, err)
	}
}

func (n *node) rulesText(id string) string {
	n.w.t.Helper()
	rules, ok, err := n.dp.PortRules(n.w.ctx, n.desired, id)
	must(n.w.t, err)
	if !ok || rules.Port == "" || rules.Stats == nil || rules.Stats.PacketsSent == 0 {
		n.w.t.Fatalf("rules of %s: %v, %+v", id, ok, rules)
	}
	var b strings.Builder
	for _, r := range rules.Rules {
		fmt.Fprintf(&b, "%s %s %s: %s %d", r.Layer, r.Way, r.Match, r.Action, r.Packets)
		if r.Shared {
			b.WriteString(" shared")
		}
		if r.Missing {
			b.WriteString(" missing")
		}
		b.WriteString("\n")
	}
	return b.String()
}
