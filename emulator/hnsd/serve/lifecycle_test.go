package serve

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit/wait"
)

// population makes a network, local and remote endpoints and load balancers, and gives their ids by kind.
func population(t *testing.T, s *server, c *thread, balancers int) (network uint64) {
	t.Helper()
	network = c.network()
	c.good(wire.On(hnsd.Endpoint, wire.Create), network, "",
		`{"Name":"pod","IpConfigurations":[{"IpAddress":"10.244.7.9"}],"SchemaVersion":{"Major":2,"Minor":0}}`)
	backend := c.remote(network, "10.244.3.1")
	c.remote(network, "10.244.3.2")
	for i := range balancers {
		c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer(fmt.Sprintf("10.96.0.%d", i+1), 80, backend))
	}
	if n := s.plane.balancers(); n != balancers {
		t.Fatalf("the data plane carries %d load balancers, want %d", n, balancers)
	}
	return network
}

func TestServiceStates(t *testing.T) {
	for state, want := range map[string]struct {
		code   uint32
		record bool
	}{
		"stopped": {0x80070426, true}, "starting": {0x800706d9, false}, "gone": {0x800706ba, false},
		"stopping": {0x803b0020, true}, "missing": {0x80070424, false},
	} {
		t.Run(state, func(t *testing.T) {
			s := startServer(t, 20348)
			c := s.connect("kube-proxy.exe", 100)
			network := population(t, s, c, 2)
			s.control("POST", "/service", fmt.Sprintf(`{"state":%q}`, state), nil)
			for _, op := range []wire.Op{wire.On(hnsd.Network, wire.Enumerate), wire.On(hnsd.LoadBalancer, wire.Create),
				wire.HNSCall} {
				if a := c.call(op, 0, "", "GET", "/globals/version"); a.result != want.code ||
					(a.record != "") != want.record {
					t.Errorf("call %d: %#x %q", op, a.result, a.record)
				}
			}

			var st ServiceStatus
			s.control("GET", "/service", "", &st)
			if st.State != state {
				t.Errorf("it says that it is %s", st.State)
			}
			s.control("POST", "/service", `{"state":"running"}`, &st)
			if st.State != "running" || st.Restarts != 1 || st.Lost != 0 {
				t.Errorf("got %+v", st)
			}
			if n := len(c.ids(hnsd.LoadBalancer)); n != 2 {
				t.Errorf("%d load balancers", n)
			}
			if a := c.call(wire.On(hnsd.Network, wire.Query), network, ""); a.result != 0x80070006 {
				t.Errorf("a handle from before: %#x", a.result)
			}
		})
	}
}

func TestServiceKeep(t *testing.T) {
	for _, c := range []struct {
		request                                  string
		networks, local, remote, balancers, lost int
	}{
		{`{"state":"running"}`, 1, 1, 2, 5, 0},
		{`{"state":"running","keep":"all"}`, 1, 1, 2, 5, 0},
		{`{"state":"running","keep":"none"}`, 1, 1, 0, 0, 7},
		{`{"state":"running","keep":"half"}`, 1, 1, 1, 3, 3}, // of 2 and of 5
		{`{"state":"running","lose":["LocalEndpoint"]}`, 1, 0, 2, 5, 1},
		{`{"state":"running","lose":["Network"]}`, 0, 0, 0, 5, 1},
	} {
		t.Run(c.request, func(t *testing.T) {
			s := startServer(t, 20348)
			p := s.connect("kube-proxy.exe", 100)
			population(t, s, p, 5)
			var st ServiceStatus
			s.control("POST", "/service", c.request, &st)
			count := map[string]int{}
			for k := range s.s.objects.State().Everything() {
				for _, name := range []string{"Network", "LocalEndpoint", "RemoteEndpoint", "LoadBalancer"} {
					if k.Is(name) {
						count[name]++
					}
				}
			}
			want := map[string]int{"Network": c.networks, "LocalEndpoint": c.local, "RemoteEndpoint": c.remote,
				"LoadBalancer": c.balancers}
			for name, n := range want {
				if count[name] != n {
					t.Errorf("%d %s, want %d", count[name], name, n)
				}
			}
			if st.Lost != c.lost {
				t.Errorf("it tells of %d lost objects, want %d", st.Lost, c.lost)
			}
		})
	}

	s := startServer(t, 20348)
	for _, body := range []string{`{"state":"dead"}`, `{"state":"running","keep":"some"}`,
		`{"state":"running","lose":["Pod"]}`} {
		if code, text := s.tryControl("POST", "/service", body); code != 400 {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
}

// TestServiceForMs: it comes back by itself, unless another request came meanwhile.
func TestServiceForMs(t *testing.T) {
	s := startServer(t, 20348)
	c := s.connect("kube-proxy.exe", 100)
	population(t, s, c, 4)
	begin := time.Now()
	s.control("POST", "/service", `{"state":"stopped","keep":"half","forMs":50}`, nil)
	if n := s.plane.balancers(); n != 4 {
		t.Errorf("%d load balancers are carried while HNS is stopped, want all", n)
	}
	wait.True(t, 20*time.Second, "HNS runs again", func() bool { return s.s.life.status().State == "running" })
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("after %v already", took)
	}
	if n := s.plane.balancers(); n != 2 {
		t.Errorf("%d load balancers are carried, want half", n)
	}
	s.control("POST", "/service", `{"state":"stopped","keep":"none","forMs":1}`, nil)
	s.control("POST", "/service", `{"state":"gone"}`, nil)
	time.Sleep(20 * time.Millisecond) // the time in which the first request's end would show
	if st := s.s.life.status(); st.State != "gone" && st.State != "running" {
		t.Errorf("it is %s", st.State)
	}
}

func TestLose(t *testing.T) {
	for _, c := range []struct {
		request string
		lost    int
		left    []string // last parts of the frontends
	}{
		{`{"kind":"LoadBalancer","count":2}`, 2, []string{"3", "4", "5", "6", "7", "8"}},
		{`{"kind":"LoadBalancer"}`, 8, nil},
		{`{"kind":"LoadBalancer","percent":50}`, 4, []string{"1", "3", "5", "7"}},
		{`{"kind":"LoadBalancer","percent":25}`, 2, []string{"1", "2", "3", "5", "6", "7"}},
		{`{"kind":"LoadBalancer","match":"10.96.0.[78]"}`, 2, []string{"1", "2", "3", "4", "5", "6"}},
		{`{"kind":"Endpoint"}`, 3, []string{"1", "2", "3", "4", "5", "6", "7", "8"}},
	} {
		t.Run(c.request, func(t *testing.T) {
			s := startServer(t, 20348)
			p := s.connect("kube-proxy.exe", 100)
			population(t, s, p, 8)
			var answer struct {
				Lost int
				IDs  []string
			}
			s.control("POST", "/lose", c.request, &answer)

			var left []string
			for o := range s.s.objects.State().Everything() {
				if o.Is("LoadBalancer") {
					vip := o.Doc["FrontendVIPs"].([]any)[0].(string)
					left = append(left, vip[len("10.96.0."):])
				}
			}
			slices.Sort(left)
			if answer.Lost != c.lost || len(answer.IDs) != c.lost || !slices.Equal(left, c.left) {
				t.Errorf("lost %+v, left %v; want %d and %v", answer, left, c.lost, c.left)
			}
		})
	}
}

// TestLosePlaneOnly: the object stays listed, and its packets are not carried until the object is changed, or all is
// repaired; changes of others do not bring it back.
func TestLosePlaneOnly(t *testing.T) {
	s := startServer(t, 26100)
	c := s.connect("kube-proxy.exe", 100)
	network := population(t, s, c, 3)
	first := c.ids(hnsd.LoadBalancer)[0]
	carried := func(what string, want int) {
		t.Helper()
		if n := s.plane.balancers(); n != want {
			t.Errorf("%s: %d load balancers are carried, want %d", what, n, want)
		}
		if n := len(c.ids(hnsd.LoadBalancer)); n < 3 {
			t.Errorf("%s: %d load balancers are listed", what, n)
		}
	}

	s.control("POST", "/lose", `{"kind":"LoadBalancer","planeOnly":true}`, nil)
	carried("after the loss", 0)
	must(t, s.s.restore(t.Context()))
	carried("after the periodic repair", 0)
	backend := c.remote(network, "10.244.3.9")
	c.good(wire.On(hnsd.LoadBalancer, wire.Create), 0, "", balancer("10.96.0.99", 80, backend))
	carried("after another one was made", 1)
	h := c.good(wire.On(hnsd.LoadBalancer, wire.Open), 0, first).handle
	c.good(wire.On(hnsd.LoadBalancer, wire.Modify), h, "", balancer("10.96.0.1", 80, backend))
	carried("after it was changed", 2)
	s.control("POST", "/repair", "", nil)
	carried("after the repair", 4)
}

// TestLoseRenew puts a network under a new id in the place of the old one.
func TestLoseRenew(t *testing.T) {
	s := startServer(t, 20348)
	c := s.connect("kube-proxy.exe", 100)
	old := c.idOf(hnsd.Network, population(t, s, c, 1))
	s.control("POST", "/lose", `{"kind":"Network","renew":true}`, nil)
	ids := c.ids(hnsd.Network)
	if len(ids) != 1 || ids[0] == old || len(c.ids(hnsd.Endpoint)) != 0 {
		t.Errorf("networks %v, before %s; %d endpoints", ids, old, len(c.ids(hnsd.Endpoint)))
	}
}
