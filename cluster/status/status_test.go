package status

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/proxy/health"
)

// TestNetworkInStatus: the mode of a node, and how many of its peers have a session.
func TestNetworkInStatus(t *testing.T) {
	s := Status{Nodes: []NodeStatus{
		{Name: "lin01", Network: "bgp",
			Routes: Counts{Wanted: 3, Present: 2, Problems: []string{"peer 10.0.0.2 (AS 1) has no session: refused"}},
			Peers:  []Peer{{Address: "10.0.0.1", AS: 1, Up: true}, {Address: "10.0.0.2", AS: 1, Reason: "refused"}}},
		{Name: "lin02", Network: "tor"}, {Name: "lin03"},
	}}
	var out bytes.Buffer
	if err := s.Print(&out); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 0 && rows[f[0]] == nil {
			rows[f[0]] = f
		}
	}
	for name, want := range map[string]string{"NODE": "NETWORK SERVICES ROUTES PEERS", "lin01": "bgp 0/0 2/3 1/2",
		"lin02": "tor 0/0 0/0 -", "lin03": "- 0/0 0/0 -"} {
		if got := strings.Join(rows[name], " "); !strings.HasSuffix(got, " "+want) {
			t.Errorf("%s: %q, want %q at the end", name, got, want)
		}
	}
	if !strings.Contains(out.String(), "lin01: peer 10.0.0.2 (AS 1) has no session: refused") {
		t.Errorf("the problem is missing:\n%s", out.String())
	}
}

// TestNotIsolatedInStatus: the status of an emulated Windows node names the handlers that ask for more than it has.
// Row 1.99.
func TestNotIsolatedInStatus(t *testing.T) {
	object := &v1.Node{Status: v1.NodeStatus{RuntimeHandlers: []v1.NodeRuntimeHandler{{}, {Name: "runhcs-wcow-process"},
		{Name: "runhcs-wcow-hypervisor"}}}}
	s := Status{Nodes: []NodeStatus{OfNode(config.Node{Name: "lin01"}, "", object),
		OfNode(config.Node{Name: "win01", Windows: true, Build: 20348}, "", object)}}
	var out bytes.Buffer
	if err := s.Print(&out); err != nil {
		t.Fatal(err)
	}
	const want = "win01: pods with the handler runhcs-wcow-hypervisor are not isolated by Hyper-V here, but as processes: the host is emulated\n"
	if text := out.String(); strings.Count(text, "Hyper-V") != 1 || !strings.Contains(text, want) {
		t.Errorf("status:\n%s", text)
	}
}

// TestServicesInStatus goes from what the proxy says to the table and the JSON.
func TestServicesInStatus(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := CountServices(health.Status{Ready: true, Wanted: 9, Programmed: 7, Omitted: 3,
		Services: map[health.State]int{health.Programmed: 5, health.Pending: 1, health.Failed: 1},
		Failed: []health.ServiceLine{{Service: "shop/web", State: health.Failed, Reason: "PortPoolExhausted",
			Message: "10.96.0.10 80/tcp: no ports",
			Code:    "0x803b0014", Since: since, Failures: 4},
			{Service: "shop/old", State: health.Failed, Reason: "Refused",
				Message: "create load balancer: no (invalid, 0x57)", Code: "0x57", Since: since}},
		Pending: []health.ServiceLine{{Service: "shop/db", State: health.Pending, Frontends: 3, Programmed: 1,
			Since: since}},
		Unserved: []health.ServiceLine{{Service: "shop/sctp", Reason: "ProtocolNotSupported", Message: "port 7"}}})

	want := []string{
		"service shop/web is failed since 2026-01-02T03:04:05Z (4 attempts, it is tried again): PortPoolExhausted: 10.96.0.10 80/tcp: no ports: 0x803b0014",
		"service shop/old is failed since 2026-01-02T03:04:05Z: Refused: create load balancer: no (invalid, 0x57)",
		"service shop/db is pending since 2026-01-02T03:04:05Z: 1 of 3 frontends are programmed, the others wait for HNS",
		"service shop/sctp: ProtocolNotSupported: port 7",
		"and 3 more",
	}

	if diff := cmp.Diff(want, c.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if c.String() != "7/9, 1 failed, 1 pending" {
		t.Errorf("column %q", c)
	}

	s := Status{Nodes: []NodeStatus{{Name: "win01", OS: "windows", Services: c}}}
	var out bytes.Buffer
	if err := s.Print(&out); err != nil || !strings.Contains(out.String(), "win01: service shop/web is failed since") {
		t.Errorf("%v, table:\n%s", err, out.String())
	}
	out.Reset()
	s.Nodes = append(s.Nodes,
		NodeStatus{Name: "win02", OS: "windows", Routes: Counts{Error: "nobody answers"}, Reason: "is not ready"})
	end := "\nwin02: routes are not known: nobody answers\nwin02: is not ready\n"
	if err := s.Print(&out); err != nil || !strings.Contains(out.String(), "\n\nwin01: ") ||
		!strings.HasSuffix(out.String(), end) {
		t.Errorf("%v, table:\n%s", err, out.String())
	}

	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}

	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}

	for _, key := range []string{"wanted", "present", "failed", "problems", "pending", "byState", "withProblems"} {
		if _, has := doc[key]; !has {
			t.Errorf("JSON lacks %s: %s", key, data)
		}
	}
	if c := CountServices(health.Status{Error: "RPC server is unavailable"}); c.String() != "?" ||
		c.Error != "RPC server is unavailable" {
		t.Errorf("host away: %+v", c)
	}

	if c := CountServices(health.Status{}); c.Error == "" {
		t.Error("a proxy that has not looked yet has no error")
	}
}

// TestPeersInStatus: the table has a line for each peer, and none in modes without.
func TestPeersInStatus(t *testing.T) {
	s := Status{Nodes: []NodeStatus{{Name: "lin01", Network: "bgp", Peers: []Peer{
		{Address: "10.99.0.1", AS: 64500, Up: true, Since: time.Now().Add(-time.Minute), Learnt: 3},
		{Address: "10.99.0.2", AS: 64500, Reason: "it does not answer"},
	}}}}
	var out bytes.Buffer
	if err := s.Print(&out); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(lines, "\n")
	if want :=
		"PEERS OF NETWORK ADDRESS AS SESSION FOR LEARNT\nlin01 bgp 10.99.0.1 64500 established 1m0s 3\nlin01 bgp 10.99.0.2 64500 none - 0\n"; !strings.Contains(text, want) {
		t.Errorf("the table lacks\n%s\nit is\n%s", want, text)
	}

	s.Nodes[0].Peers = nil
	out.Reset()
	if err := s.Print(&out); err != nil || strings.Contains(out.String(), "PEERS OF") {
		t.Errorf("without peers: %v\n%s", err, out.String())
	}
}
