package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestHostRoutes lets Windows programs change and watch the host's table through the IP helper library, while the
// kernel is looked at from this side. The host has a second network card, and its adapters are as Windows shows them.
// Its HNS does everything that the sources do not rule out; routes, win-bridge.exe and kube-proxy.exe stand it. The
// network card is away for a while when the first network is made, and its routes are lost.
// Rows 1.35, 1.41, 1.57.
func TestHostRoutes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startHostWith(t, 20348,
		func(o *Options) { o.Profile, o.DNS, o.Flap = "ws2022-unkind", DNSServers{}, 1500*time.Millisecond })
	t.Run("table", func(t *testing.T) { testWindowsTable(t, h) })
	t.Run("killed", func(t *testing.T) { testKilled(t, h, "TestHostGateway", "TestTor") })
	h.card("eth1", "10.98.7.21/24")
	h.build(".", "go", "build", "-o", filepath.Join(h.prefix.DriveC(), "adapters.exe"), "./testdata/adapters")
	h.adaptersAre(adaptersBefore)
	h.control("POST", "/dns", `{"servers": ["10.99.7.53", "10.99.7.54"]}`, nil)
	t.Run("program", func(t *testing.T) {
		testRoutesProgram(t, h)
		testForwarding(t, h)
	})
}

// testWindowsTable runs the Windows tests of routes/hostgw.
func testWindowsTable(t *testing.T, h *bridgeHost) {
	exe := filepath.Join(h.prefix.DriveC(), "hostgw.test.exe")
	h.build(".", "go", "test", "-c", "-o", exe, "porthole.dev/porthole/routes/hostgw")
	updates, stop := make(chan netlink.RouteUpdate, 64), make(chan struct{})
	must(t, platform.InNetns(h.path, func() error { return netlink.RouteSubscribe(updates, stop) }))
	// the others want their folder
	out, exit := h.start(`C:\hostgw.test.exe`, "-test.v", "-test.run=^TestWindowsTable$")
	failed := <-exit
	close(stop)
	added, deleted := 0, 0
	for u := range updates {
		switch {
		case u.Dst == nil || u.Dst.String() != "198.18.7.0/24" || u.Protocol != 201 || u.Gw.String() != "10.99.7.1":
		case u.Type == unix.RTM_NEWROUTE:
			added++
		default:
			deleted++
		}
	}

	if failed != nil || added != 2 || deleted != 2 {
		t.Errorf("the kernel saw %d adds and %d deletes: %v\n%s", added, deleted, failed, out)
	}
}

// testKilled kills agents of modes after each of their changes, by the tests of routes/killtest. Each agent is a
// program of its own.
func testKilled(t *testing.T, h *bridgeHost, tests ...string) {
	t.Helper()
	exe := filepath.Join(h.prefix.DriveC(), "killtest.exe")
	h.build(".", "go", "test", "-c", "-o", exe, "porthole.dev/porthole/routes/killtest")
	out, exit := h.start(`C:\killtest.exe`, "-test.v", "-test.run=^("+strings.Join(tests, "|")+")$")
	err := <-exit
	for _, name := range tests {
		if err != nil || !strings.Contains(out.String(), "--- PASS: "+name+" ") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// testRoutesProgram runs `porthole.exe routes` in a cluster of three nodes, of which this host is one, and meddles with
// its routes.
func testRoutesProgram(t *testing.T, h *bridgeHost) {
	h.build("../../..", "go", "build", "-o", filepath.Join(h.prefix.DriveC(), "porthole.exe"), "./cmd/porthole")
	h.serveNodes("10.99.7.1:6443", "lin01 10.99.7.11 10.244.0.0/24", "win01 10.99.7.21 10.244.7.0/24",
		"win02 10.99.7.22 10.244.2.0/24")
	writeKubeconfig(t, h, "kubeconfig", "10.99.7.1:6443")
	others := addHostRoutes(t, h)
	out, _ := h.start(`C:\porthole.exe`, "routes", `--kubeconfig=C:\kubeconfig`, "--hostname-override=win01",
		"--node-ip=10.99.7.21",
		"--cluster-cidr=10.244.0.0/16", "--service-cidr=10.96.0.0/16", "--bind=127.0.0.1:10261", "--v=1")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	})

	right := []string{"10.244.0.0/24 via 10.99.7.11", "10.244.2.0/24 via 10.99.7.22"}
	h.routesBecome(t, "the start", 20*time.Second, right)
	h.statusBecomes(t, 2)
	testAttached(t, h)
	wait.NoError(t, 5*time.Second, "the host's routes after its card was taken over", func() error {
		if have := hostRoutes(t, h); have != others {
			return fmt.Errorf("they are %s, were %s", have, others)
		}
		return nil
	})
	h.adaptersAre(adaptersSwitched)
	first := netlink.Route{Dst: prefix("10.244.0.0/24"), Gw: net.ParseIP("10.99.7.11").To4()}
	for _, meddling := range []struct {
		name string
		do   func(link netlink.Link) error
	}{
		{"a deleted route", func(netlink.Link) error { return netlink.RouteDel(&first) }},
		{"an overwritten route", func(netlink.Link) error {
			return netlink.RouteReplace(&netlink.Route{Dst: first.Dst, Gw: net.ParseIP("10.99.7.22").To4()})
		}},
		{"a link that went down", func(link netlink.Link) error {
			if err := netlink.LinkSetDown(link); err != nil {
				return err
			}
			return netlink.LinkSetUp(link)
		}},
	} {
		must(t, platform.InNetns(h.path, func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return meddling.do(link)
		}))
		h.routesBecome(t, meddling.name, 2*time.Second, right)
	}

	// HNS goes away and comes back: what happened meanwhile is seen, and events are heard again.
	h.stop()
	must(t, platform.InNetns(h.path, func() error { return netlink.RouteDel(&first) }))
	h.stop = h.serve()
	h.routesBecome(t, "a restart of HNS", 2*time.Second, right)
	slow := 0
	for range 8 {
		begin := time.Now()
		must(t, platform.InNetns(h.path, func() error { return netlink.RouteDel(&first) }))
		h.routesBecome(t, "a deletion after the restart", 2*time.Second, right)
		if time.Since(begin) > 300*time.Millisecond {
			slow++
		}
	}

	if slow > 2 { // the look at every second would be slow two times in three; one may be until the library is back
		t.Errorf("%d of 8 deletions were not heard of", slow)
	}
	// Peace afterwards: several looks at the table later nothing more was repaired. The kernel has a route before
	// the status counts it.
	repaired := time.Now()
	wait.NoError(t, 15*time.Second, "the count of repairs", func() error { // a pass comes each ten seconds
		if last := h.routesStatus(t).LastSync; !last.After(repaired) {
			return fmt.Errorf("the status is of %s, the last route was put back by %s", last, repaired)
		}
		return nil
	})
	repairs := h.statusBecomes(t, 2)
	time.Sleep(1500 * time.Millisecond) // longer than the time between two looks
	if again := h.statusBecomes(t, 2); again != repairs || repairs < 3 {
		t.Errorf("%d repairs became %d", repairs, again)
	}
}

// testAttached: HNS has the network and the host's endpoint, and the host's way to the outside is the one that it had.
func testAttached(t *testing.T, h *bridgeHost) {
	var d Dump
	h.control("GET", "/dump", "", &d)
	if len(d.Networks) != 1 || len(d.Endpoints) != 1 || len(d.Namespaces) != 1 ||
		d.Namespaces[0]["Type"] != "HostDefault" {
		t.Errorf("HNS has networks %v, endpoints %v, namespaces %v", d.Networks, d.Endpoints, d.Namespaces)
	}
	var ways []string
	must(t, platform.InNetns(h.path, func() error {
		list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range list {
			if r.Dst == nil || r.Dst.IP.IsUnspecified() {
				ways = append(ways, r.Gw.String())
			}
		}
		return err
	}))
	if fmt.Sprint(ways) != "[10.99.7.1]" {
		t.Errorf("the host's default routes: %v", ways)
	}
}

// testForwarding: the program lets packets of pods pass, and what somebody switches off is on again soon.
func testForwarding(t *testing.T, h *bridgeHost) {
	must(t, platform.InNetns(h.path, func() error { // it went when the link was down
		return platform.SetRoute(netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.MustParseAddr("10.99.7.1"))
	}))
	pod := h.netns("pod")
	var bound struct{ ID string }
	h.control("POST", "/netns", fmt.Sprintf(`{"path": %q}`, pod), &bound)
	h.build("../../..", "go", "build", "-o", filepath.Join(h.prefix.DriveC(), "opt", "cni", "bin", "win-bridge.exe"),
		"./cmd/win-bridge")
	h.plugin("ADD", bound.ID)
	defer h.plugin("DEL", bound.ID)
	h.talk("pod to outside", pod, h.out, "203.0.113.1:80", "10.99.7.21")
	blocked := blockForeign(t, h, pod)
	testService(t, h, pod)
	h.plugin("ADD", bound.ID) // again
	blocked()

	repaired := h.routesStatus(t).Adapters.Repairs
	for _, addr := range []string{"10.99.7.21", "10.244.7.2"} {
		must(t, h.plane.SetForwarding(h.links()[addr], false, false))
		wait.NoError(t, 3*time.Second, "forwarding of the adapter with "+addr, func() error {
			if s, err := h.plane.Interface(h.links()[addr], false); err != nil || !s.Forwarding {
				return fmt.Errorf("it is %+v, %v", s, err)
			}
			return nil
		})
	}
	h.talk("pod to outside again", pod, h.out, "203.0.113.1:80", "10.99.7.21")
	wait.NoError(t, 3*time.Second, "the repairs in the status", func() error {
		if s := h.routesStatus(t).Adapters; s.Repairs < repaired+2 || len(s.Problems) > 0 || len(s.Adapters) != 2 {
			return fmt.Errorf("it is %+v, before there were %d repairs", s, repaired)
		}
		return nil
	})
}

// start runs a program of the host to the end of the test at most.
func (h *bridgeHost) start(exe string, args ...string) (out *testkit.Buffer, exit <-chan error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	out = &testkit.Buffer{}
	cmd := h.tools.Command(ctx, h.prefix, exe, args...)
	cmd.Stdout, cmd.Stderr = out, out
	must(h.t, platform.StartInNetns(h.path, cmd))
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		done <- cmd.Wait()
		close(ended)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return out, done
}

// routesBecome waits until the kernel's routes to pod ranges through other nodes are those.
func (h *bridgeHost) routesBecome(t *testing.T, after string, within time.Duration, want []string) {
	t.Helper()
	begin := time.Now()
	wait.NoError(t, within, "the routes after "+after, func() error {
		var have []string
		must(t, platform.InNetns(h.path, func() error {
			list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
			for _, r := range list {
				if r.Gw != nil && r.Dst != nil && strings.HasPrefix(r.Dst.String(), "10.244.") {
					have = append(have, fmt.Sprintf("%s via %s", r.Dst, r.Gw))
				}
			}
			return err
		}))
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Errorf("%q, want %q", have, want)
		}
		return nil
	})
	t.Logf("after %s: right within %v", after, time.Since(begin))
}

// routesStatus is what the program says of itself.
type routesStatus struct {
	Wanted, Present, Failed, Repairs int
	LastSync                         time.Time
	Error                            string
	Adapters                         struct {
		Adapters []struct{ Name string }
		Problems []string
		Repairs  int
	}
}

// routesStatus asks the program. The zero value says that it does not answer.
func (h *bridgeHost) routesStatus(t *testing.T) (s routesStatus) {
	t.Helper()
	client := http.Client{Timeout: time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: testkit.DialIn(h.path)}}
	resp, err := client.Get("http://127.0.0.1:10261/status")
	if err != nil {
		return s
	}
	defer resp.Body.Close()
	must(t, json.NewDecoder(resp.Body).Decode(&s))
	return s
}

// statusBecomes waits until the program says that n of n routes are there, and gives the repairs that it counted.
func (h *bridgeHost) statusBecomes(t *testing.T, n int) (repairs int) {
	t.Helper()
	var s routesStatus
	wait.NoError(t, 5*time.Second, "the status", func() error {
		if s = h.routesStatus(t); s.Wanted != n || s.Present != n || s.Failed != 0 || s.Error != "" {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
	return s.Repairs
}

// serveNodes is an API server outside the host with nodes given as "name address range". It knows lists and watches
// in which nothing happens, and takes whatever is written.
func (h *bridgeHost) serveNodes(addr string, nodes ...string) {
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, text := range nodes {
		f := strings.Fields(text)
		list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f[0], ResourceVersion: "1"},
			Spec:   corev1.NodeSpec{PodCIDR: f[2], PodCIDRs: []string{f[2]}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: f[1]}}}})
	}

	var listener net.Listener
	must(h.t, platform.InNetns(h.out, func() (err error) {
		listener, err = net.Listen("tcp4", addr)
		return err
	}))

	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.FormValue("sendInitialEvents") != "":
				w.WriteHeader(http.StatusUnprocessableEntity)
				json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
					Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
			case r.FormValue("watch") != "":
				w.WriteHeader(http.StatusOK)
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes":
				json.NewEncoder(w).Encode(list)
			default:
				json.NewEncoder(w).Encode(list.Items[0])
			}
		})}

	go server.Serve(listener)
	h.t.Cleanup(func() {
		cancel()
		server.Close()
	})
}

func prefix(text string) *net.IPNet {
	_, n, _ := net.ParseCIDR(text)
	return n
}

// addHostRoutes gives the host routes that are none of ours: one of its administrator, and one that a program made.
func addHostRoutes(t *testing.T, h *bridgeHost) string {
	t.Helper()
	must(t, platform.InNetns(h.path, func() error {
		gateway := net.ParseIP("10.99.7.9")
		return errors.Join(netlink.RouteAdd(&netlink.Route{Dst: prefix("192.168.50.0/24"), Gw: gateway}),
			netlink.RouteAdd(&netlink.Route{Dst: prefix("192.168.51.0/24"), Gw: gateway, Protocol: 201, Priority: 7}))
	}))
	return hostRoutes(t, h)
}

// hostRoutes lists the routes of addHostRoutes.
func hostRoutes(t *testing.T, h *bridgeHost) string {
	t.Helper()
	var have []string
	must(t, platform.InNetns(h.path, func() error {
		list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range list {
			if r.Dst != nil && strings.HasPrefix(r.Dst.String(), "192.168.") {
				have = append(have, fmt.Sprintf("%s via %s metric %d", r.Dst, r.Gw, r.Priority))
			}
		}
		return err
	}))
	slices.Sort(have)
	return strings.Join(have, ", ")
}

// blockForeign puts an ACL on all endpoints, as an agent of somebody else does for network policies. The result checks
// that each endpoint has it still, and that it has its effect.
func blockForeign(t *testing.T, h *bridgeHost, pod string) func() {
	t.Helper()
	const acl = `{"ResourceType": "Policy", "RequestType": "Add", "Settings": {"Policies": [{"Type": "ACL", "Settings": {"Protocols": "6", "Action": "Block",
 "Direction": "Out", "RemotePorts": "9999", "RuleType": "Switch", "Priority": 500}}]}}`
	var conn net.Conn
	must(t, platform.InNetns(h.path, func() (err error) {
		conn, err = net.Dial("tcp4", testListen)
		return err
	}))
	defer conn.Close()
	hns, err := wire.NewConn(conn, 1, "policies.exe")
	must(t, err)
	var d Dump
	h.control("GET", "/dump", "", &d)
	for _, e := range d.Endpoints {
		handle, _, err := hns.Call(wire.Request{Op: wire.On(hnsd.Endpoint, wire.Open), GUID: e.Text("ID")})
		must(t, err)
		_, _, err = hns.Call(wire.Request{Op: wire.On(hnsd.Endpoint, wire.Modify), Handle: handle,
			Text: [3]string{acl}})
		must(t, err)
	}

	return func() {
		t.Helper()
		var now Dump
		h.control("GET", "/dump", "", &now)
		kept := 0
		for _, e := range now.Endpoints {
			if text, err := json.Marshal(e); err == nil && strings.Contains(string(text), `"9999"`) {
				kept++
			}
		}
		if len(d.Endpoints) != 2 || kept != 2 {
			t.Errorf("%d of %d endpoints have the ACL of somebody else", kept, len(d.Endpoints))
		}
		var r EndpointRules
		must(t, platform.InNetns(pod, func() error {
			if c, err := net.DialTimeout("tcp4", "203.0.113.1:9999", 200*time.Millisecond); err == nil {
				c.Close()
				t.Error("it has no effect any more")
			}
			return nil
		}))
		h.control("GET", "/rules/10.244.7.3", "", &r)
		if len(r.Rules) == 0 || r.Rules[0].Layer != "acl" || r.Rules[0].Packets == 0 {
			t.Errorf("rules of the pod: %+v", r)
		}
	}
}
