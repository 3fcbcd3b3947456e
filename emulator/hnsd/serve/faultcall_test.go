package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestFaultActions runs each action against calls over the wire.
func TestFaultActions(t *testing.T) {
	s := startServer(t, 20348)
	c := s.connect("kube-proxy.exe", 100)
	network := c.network()
	backend := c.remote(network, "10.244.3.5")
	lb := c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.96.0.10", 53, backend)).handle
	id := c.idOf(hnsd.LoadBalancer, lb)
	fault := func(rule string) { s.control("POST", "/faults", "["+rule+"]", nil) }

	t.Run("fail", func(t *testing.T) {
		fault(
			`{"function":"HcnDelete*","match":"10.96.0.10\"","action":"fail","code":2147943462,"text":"The service has not been started.","times":1}`)
		if a := c.call(wire.On(hnsd.LoadBalancer, wire.Delete), 0, id); a.result != 0x80070426 ||
			!strings.Contains(a.record, "not been started. ") {
			t.Errorf("got %#x %q", a.result, a.record)
		}
		if n := len(c.ids(hnsd.LoadBalancer)); n != 1 {
			t.Errorf("%d load balancers: a failed deletion deleted", n)
		}
	})
	t.Run("after", func(t *testing.T) {
		fault(`{"function":"HcnCreateLoadBalancer","action":"after","code":2147944126}`)
		if a := c.call(wire.On(hnsd.LoadBalancer, wire.Create), 0, "",
			balancer("10.96.0.11", 53, backend)); a.result != 0x800706be || a.record != "" {
			t.Errorf("got %#x %q", a.result, a.record)
		}
		if n := len(c.ids(hnsd.LoadBalancer)); n != 2 {
			t.Errorf("%d load balancers, want the one whose creation was done but not told too", n)
		}
	})
	t.Run("skip", func(t *testing.T) {
		fault(`{"function":"HcnCreateLoadBalancer","action":"skip"}`)
		h := c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.96.0.12", 53, backend)).handle
		if h == 0 {
			t.Error("no handle")
		}
		if a := c.call(wire.On(hnsd.LoadBalancer, wire.Query), h, ""); a.result != 0x80070490 {
			t.Errorf("what was not made can be read: %#x", a.result)
		}
		if n := len(c.ids(hnsd.LoadBalancer)); n != 2 {
			t.Errorf("%d load balancers", n)
		}
	})
	t.Run("empty", func(t *testing.T) {
		fault(`{"function":"HcnEnumerateEndpoints","action":"empty","times":1}`)
		if n := len(c.ids(hnsd.Endpoint)); n != 0 {
			t.Errorf("%d endpoints", n)
		}
		if n := len(c.ids(hnsd.Endpoint)); n != 1 {
			t.Errorf("%d endpoints afterwards", n)
		}
	})
	t.Run("strip", func(t *testing.T) {
		fault(`{"function":"HcnQueryLoadBalancerProperties","action":"strip","fields":["PortMappings"]}`)
		if text := c.good(wire.On(hnsd.LoadBalancer, wire.Query), lb, "").text; strings.Contains(text,
			"PortMappings") || !strings.Contains(text, "FrontendVIPs") {
			t.Errorf("got %s", text)
		}
	})
	t.Run("delay", func(t *testing.T) {
		fault(`{"function":"HcnOpenNetwork","delayMs":30}`)
		begin := time.Now()
		c.call(wire.On(hnsd.Network, wire.Open), 0, id)
		if took := time.Since(begin); took < 30*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
	t.Run("drop", func(t *testing.T) {
		fault(`{"function":"HcnOpenNetwork","action":"drop","program":"kubelet.exe"}`)
		c.call(wire.On(hnsd.Network, wire.Open), 0, id) // another program
		other := s.connect("kubelet.exe", 200)
		if _, err := other.try(wire.On(hnsd.Network, wire.Open), 0, id); !errors.Is(err, io.EOF) {
			t.Errorf("the connection was not dropped: %v", err)
		}
	})
	t.Run("hits", func(t *testing.T) {
		var rules []Fault
		s.control("GET", "/faults", "", &rules)
		if len(rules) != 1 || rules[0].Hits != 1 {
			t.Errorf("got %+v", rules)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, body := range []string{`[{"action":"fail"}]`, `[{"acton":"fail"}]`, `{}`} {
			if code, text := s.tryControl("POST", "/faults", body); code != 400 || !strings.Contains(text, "error") {
				t.Errorf("%s: %d %s", body, code, text)
			}
		}
	})
}

// TestFaultLate: an endpoint gets the named policies after its call has succeeded, unless it has them by then.
func TestFaultLate(t *testing.T) {
	s := startServer(t, 20348)
	c := s.connect("win-bridge.exe", 100)
	const route = `{"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.96.0.0/16","NeedEncap":true}}`
	const endpoint = `{"IpConfigurations":[{"IpAddress":"10.244.7.9"}],"Policies":[` + route +
		`,{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.96.0.0/16"]}}],"SchemaVersion":{"Major":2,"Minor":0}}`
	routes := func(h uint64) int {
		return strings.Count(c.good(wire.On(hnsd.Endpoint, wire.Query), h, "").text, `"SDNRoute"`)
	}
	s.control("POST", "/faults", `[{"function":"HcnCreateEndpoint","action":"late","fields":["sdnroute"],"lateMs":1,"times":1},
 {"function":"HcnCreateEndpoint","action":"late","fields":["SDNRoute"],"lateMs":60000}]`, nil)
	network := c.network()
	h := c.good(wire.On(hnsd.Endpoint, wire.Create), network, "", endpoint).handle
	wait.True(t, 20*time.Second, "the late route", func() bool { return routes(h) == 1 })
	c.good(wire.On(hnsd.Endpoint, wire.Delete), 0, c.idOf(hnsd.Endpoint, h))

	h = c.good(wire.On(hnsd.Endpoint, wire.Create), network, "", endpoint).handle
	if n := routes(h); n != 0 {
		t.Errorf("%d routes at once", n)
	}
	c.good(wire.On(hnsd.Endpoint, wire.Modify), h, "",
		`{"ResourceType":"Policy","RequestType":"Add","Settings":{"Policies":[`+route+`]}}`)
	var late any
	must(t, json.Unmarshal([]byte(route), &late))
	must(t, s.s.addMissing(t.Context(), c.idOf(hnsd.Endpoint, h), []any{late}))
	if n := routes(h); n != 1 {
		t.Errorf("%d routes after one was added and the late one came", n)
	}
	// the endpoint is gone
	must(t, s.s.addMissing(t.Context(), "00000000-0000-0000-0000-000000000001", []any{late}))
}

// TestFaultMute: a call takes effect at once and is answered when the rules are replaced. Without its caller it has
// its effect still.
func TestFaultMute(t *testing.T) {
	s := startServer(t, 20348)
	other := s.connect("test", 1)
	for _, answered := range []bool{true, false} {
		before := len(other.ids(hnsd.Namespace))
		s.control("POST", "/faults", `[{"function":"HcnCreateNamespace","action":"mute"}]`, nil)
		c := s.connect("containerd.exe", 100)
		c.send(wire.On(hnsd.Namespace, wire.Create), 0, "", `{"Type":"Host","SchemaVersion":{"Major":2,"Minor":0}}`)
		wait.True(t, 20*time.Second, "the namespace is made",
			func() bool { return len(other.ids(hnsd.Namespace)) == before+1 })
		if !answered {
			c.conn.Close()
		}
		s.control("POST", "/faults", `[]`, nil)
		if answered {
			if a, err := c.receive(); err != nil || a.result != 0 {
				t.Errorf("%#x, %v", a.result, err)
			}
		}
		if n := len(other.ids(hnsd.Namespace)); n != before+1 {
			t.Errorf("%d namespaces, %d before", n, before)
		}
	}
}

// TestFaultHang: a hanging call holds up nobody else, and ends in each of its three ways.
func TestFaultHang(t *testing.T) {
	s := startServer(t, 20348)
	hang := func() {
		s.control("POST", "/faults", `[{"function":"HcnEnumerateNetworks","program":"kube-proxy.exe","action":"hang"}]`,
			nil)
	}
	hit := func(n int) {
		t.Helper()
		wait.True(t, 20*time.Second, fmt.Sprintf("%d calls hang", n),
			func() bool { return s.s.faults.List()[0].Hits == n })
	}
	hang()
	c := s.connect("kube-proxy.exe", 100)
	c.send(wire.On(hnsd.Network, wire.Enumerate), 0, "")
	hit(1)
	// another thread of the same program
	s.connect("kube-proxy.exe", 100).good(wire.On(hnsd.Endpoint, wire.Enumerate), 0, "")
	s.control("POST", "/faults", `[]`, nil)
	if a, err := c.receive(); err != nil || a.result != 0 || a.text != "[]" {
		t.Errorf("after the rules were replaced: %#x %q %v", a.result, a.text, err)
	}
	c.good(wire.On(hnsd.Network, wire.Enumerate), 0, "") // the connection can be used further

	hang()
	c.send(wire.On(hnsd.Network, wire.Enumerate), 0, "")
	hit(1)
	s.control("POST", "/service", `{"state":"stopped"}`, nil)
	if a, err := c.receive(); err != nil || a.result != 0x800706be {
		t.Errorf("after HNS stopped: %#x %v", a.result, err)
	}
	s.control("POST", "/service", `{"state":"running"}`, nil)

	hang()
	c.good(wire.On(hnsd.Endpoint, wire.Enumerate), 0, "")
	c.send(wire.On(hnsd.Network, wire.Enumerate), 0, "")
	hit(1)
	c.conn.Close()
	wait.True(t, 20*time.Second, "the caller's end is seen", func() bool {
		return s.s.handles.Connections(100) <= 1 // the other thread's
	})
}
