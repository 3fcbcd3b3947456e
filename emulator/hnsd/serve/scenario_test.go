package serve

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestScenarios plays every row on a host of its own: its rules are well-formed, each rule hits a call of the kind that
// it is meant for, and what it loses is lost.
func TestScenarios(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range Scenarios() {
		if rows[row.Name] {
			t.Errorf("%s is there twice", row.Name)
		}
		rows[row.Name] = true
		acts := len(row.Faults) > 0 || row.Lose != nil || row.Service != nil || row.Latency != "" || row.Pool != nil
		if !acts && row.Needs == "" {
			t.Errorf("%s does nothing and does not say why", row.Name)
		}
		t.Run(row.Name, func(t *testing.T) {
			s := startServer(t, 26100)
			c := s.connect("kube-proxy.exe", 1)
			network := population(t, s, c, 40)
			before := len(c.ids(hnsd.LoadBalancer))
			s.control("POST", "/scenario", fmt.Sprintf(`{"name":%q}`, row.Name), nil)
			if row.Lose != nil && row.Lose.Kind == "LoadBalancer" {
				listed, carried := len(c.ids(hnsd.LoadBalancer)), s.plane.balancers()
				if carried >= before || row.Lose.PlaneOnly != (listed == before) {
					t.Errorf("of %d load balancers %d are listed and %d carried", before, listed, carried)
				}
			}
			if row.Service != nil {
				if a := c.call(wire.On(hnsd.Network, wire.Enumerate), 0, ""); a.result&0x80000000 == 0 {
					t.Error("HNS answers")
				}
			}
			if len(row.Faults) > 0 {
				scenarioCalls(s, network)
				for _, f := range s.s.faults.List() {
					if f.Hits == 0 {
						t.Errorf("no call was hit by %+v", f)
					}
				}
			}
		})
	}

	for _, want := range strings.Fields("1 2 3 4 5 6 7 8 9 10 12 13 14 15 16 17 18 20 21 22 24 25 28 32 33 34") {
		if !rows["F-"+want] {
			t.Errorf("F-%s is missing", want)
		}
	}

	if _, err := Scenario("F-99"); err == nil {
		t.Error("an unknown scenario was found")
	}
}

// scenarioCalls makes the calls of a service proxy, whatever they answer. Each on a thread of its own, since it may
// hang.
func scenarioCalls(s *server, network uint64) {
	backend := s.s.objects.State().List(1)[0].ID
	lb := s.s.objects.State().List(3)[0].ID
	calls := []func(c *thread){
		func(c *thread) { c.send(wire.HNSCall, 0, "", "GET", "/globals/version") },
		func(c *thread) {
			c.send(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.97.0.1", 10256, backend))
		},
		func(c *thread) {
			c.send(wire.On(hnsd.LoadBalancer, wire.Create), 0, "",
				strings.Replace(balancer("10.97.0.2", 80, backend), "{", `{"SourceVIP":"10.244.7.9",`, 1))
		},
		func(c *thread) { c.send(wire.On(hnsd.Endpoint, wire.Enumerate), 0, "") },
		func(c *thread) {
			c.send(wire.On(hnsd.Endpoint, wire.Query), s.s.handles.Open(hnsd.Endpoint, backend, 1), "")
		},
		func(c *thread) {
			c.send(wire.On(hnsd.LoadBalancer, wire.Query), s.s.handles.Open(hnsd.LoadBalancer, lb, 1), "")
		},
		func(c *thread) {
			c.send(wire.On(hnsd.LoadBalancer, wire.Modify), s.s.handles.Open(hnsd.LoadBalancer, lb, 1), "",
				balancer("10.96.0.1", 80, backend))
		},
	}

	for range 40 {
		calls = append(calls, func(c *thread) { c.send(wire.On(hnsd.LoadBalancer, wire.Open), 0, lb) },
			func(c *thread) { c.send(wire.On(hnsd.Endpoint, wire.Delete), 0, backend) },
			func(c *thread) { c.send(wire.On(hnsd.LoadBalancer, wire.Delete), 0, lb) })
	}

	var slow Fault
	for _, f := range s.s.faults.List() {
		if f.Action == "hang" || f.Delay > 0 {
			slow = f
		}
	}

	for _, call := range calls {
		c := s.connect("kube-proxy.exe", 1)
		call(c)
		if slow.Function == "" {
			c.receive()
		}
	}

	if slow.Function != "" {
		wait.True(s.t, 20*time.Second, "a call is held up", func() bool { return s.s.faults.List()[0].Hits > 0 })
	}
}

// TestPool: 20 blocks carry 20 load balancers; the next is refused, those there and those with direct server return are
// not affected, and a deleted one gives its block back.
func TestPool(t *testing.T) {
	s := startServer(t, 20348)
	c := s.connect("kube-proxy.exe", 1)
	backend := c.remote(c.network(), "10.244.3.1")
	s.control("POST", "/pool", `{"size":20}`, nil)
	dsr := func(doc string) string { return strings.Replace(doc, "{", `{"Flags":1,`, 1) }
	var ids []string
	for i := range 20 {
		h := c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "",
			balancer(fmt.Sprintf("10.96.0.%d", i+1), 53, backend)).handle
		ids = append(ids, c.idOf(hnsd.LoadBalancer, h))
	}

	full := func() {
		t.Helper()
		if a := c.call(wire.On(hnsd.LoadBalancer, wire.Create), 0, "",
			balancer("10.96.1.1", 80, backend)); a.result != 0x803b0013 {
			t.Errorf("the 21st: %#x", a.result)
		}
		if n := s.plane.balancers(); n < 20 {
			t.Errorf("%d load balancers are carried", n)
		}
	}

	full()
	c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", dsr(balancer("10.96.1.2", 80, backend)))
	var p Pool
	s.control("GET", "/pool", "", &p)
	if p != (Pool{Size: 20, Used: 20, BlockSize: 64}) {
		t.Errorf("got %+v", p)
	}
	c.good(wire.On(hnsd.LoadBalancer, wire.Delete), 0, ids[7])
	c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.96.1.3", 80, backend))
	full()
	s.control("POST", "/pool", `{"free":1}`, nil)
	c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.96.1.4", 80, backend))
	full()
	for _, body := range []string{`{}`, `{"size":1,"free":1}`, `{"size":-1}`} {
		if code, _ := s.tryControl("POST", "/pool", body); code != 400 {
			t.Errorf("%s: %d", body, code)
		}
	}
}

// TestListenerConflict: on the builds that do so, a node port on which a process of the host listens is refused, and
// taken when the process has gone.
func TestListenerConflict(t *testing.T) {
	nodePort := func(backend string, port int) string {
		return strings.Replace(balancer("x", port, backend), `"FrontendVIPs":["x"],`, "", 1)
	}

	for build, refused := range map[int]bool{17763: true, 20348: false, 26100: false} {
		t.Run(fmt.Sprint(build), func(t *testing.T) {
			s := startServer(t, build)
			busy := 30080
			var asked []string
			s.s.host.Listens = func(protocol uint8, addr netip.Addr, port uint16) bool {
				asked = append(asked, fmt.Sprintf("%d %v %d", protocol, addr, port))
				return int(port) == busy
			}
			c := s.connect("kube-proxy.exe", 1)
			backend := c.remote(c.network(), "10.244.3.1")
			for what, doc := range map[string]string{"a node port": nodePort(backend, 30080),
				"the node's address": balancer("10.99.7.21", 30080, backend)} {
				want := uint32(0)
				if refused {
					want = 0x803b0013
				}
				if a := c.call(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", doc); a.result != want {
					t.Errorf("%s: %#x, want %#x (asked %v)", what, a.result, want, asked)
				}
			}
			asked = nil
			c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.96.0.1", 30080, backend))
			if len(asked) > 0 {
				t.Errorf("for a service address it was asked who listens on %v", asked)
			}
			if busy = 0; refused {
				c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", nodePort(backend, 30080))
			}
		})
	}
}
