package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestHostAddresses lets a Windows program put addresses on an interface of the host, and relay what comes to them.
// Rows 1.75, 1.76.
func TestHostAddresses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startBridgeHost(t, 20348)
	must(t, platform.InNetns(h.path, func() error {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "svc0"}}); err != nil {
			return err
		}
		link, err := netlink.LinkByName("svc0")
		if err != nil {
			return err
		}
		foreign, err := netlink.ParseAddr("198.51.100.9/32")
		if err != nil {
			return err
		}
		return cmpErr(netlink.AddrAdd(link, foreign), netlink.LinkSetUp(link))
	}))

	must(t, platform.InNetns(h.out, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: prefix("10.96.0.0/16"), Gw: net.ParseIP("10.99.7.21").To4()})
	}))
	t.Run("relay", func(t *testing.T) { testWindowsRelay(t, h) })
	t.Run("program", func(t *testing.T) { testUserspaceProgram(t, h) })
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// testWindowsRelay runs the tests of proxy/relay as a Windows program.
func testWindowsRelay(t *testing.T, h *bridgeHost) {
	exe := filepath.Join(h.prefix.DriveC(), "relay.test.exe")
	h.build(".", "go", "test", "-c", "-o", exe, "porthole.dev/porthole/proxy/relay")
	out, exit := h.start(`C:\relay.test.exe`, "-test.v", "-test.short")
	if err := <-exit; err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// objects of the cluster that the program serves: TCP, UDP (one port at two addresses), node ports and one address
// that is on the host already.
const (
	userspaceServices = `{"apiVersion": "v1", "kind": "ServiceList", "metadata": {"resourceVersion": "1"}, "items": [
 {"metadata": {"namespace": "kube-system", "name": "kube-dns", "resourceVersion": "1"}, "spec": {"type": "NodePort", "clusterIP": "10.96.0.10",
  "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"], "ports": [{"name": "dns", "protocol": "UDP", "port": 53, "nodePort": 30053}]}},
 {"metadata": {"namespace": "default", "name": "names", "resourceVersion": "1"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.11",
  "clusterIPs": ["10.96.0.11"], "ipFamilies": ["IPv4"], "ports": [{"name": "dns", "protocol": "UDP", "port": 53}]}},
 {"metadata": {"namespace": "default", "name": "web", "resourceVersion": "1"}, "spec": {"type": "NodePort", "clusterIP": "10.96.0.20",
  "clusterIPs": ["10.96.0.20"], "ipFamilies": ["IPv4"], "externalIPs": ["198.51.100.9"],
  "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}, {"name": "admin", "protocol": "TCP", "port": 81, "nodePort": 30081}]}}]}`
	userspaceSlices = `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "metadata": {"resourceVersion": "1"}, "items": [
 {"metadata": {"namespace": "kube-system", "name": "kube-dns-1", "resourceVersion": "1", "labels": {"kubernetes.io/service-name": "kube-dns"}},
  "addressType": "IPv4", "endpoints": [{"addresses": ["10.99.7.1"], "conditions": {"ready": true}}], "ports": [{"name": "dns", "protocol": "UDP", "port": 5353}]},
 {"metadata": {"namespace": "default", "name": "names-1", "resourceVersion": "1", "labels": {"kubernetes.io/service-name": "names"}},
  "addressType": "IPv4", "endpoints": [{"addresses": ["10.99.7.1"], "conditions": {"ready": true}}], "ports": [{"name": "dns", "protocol": "UDP", "port": 5354}]},
 {"metadata": {"namespace": "default", "name": "web-1", "resourceVersion": "1", "labels": {"kubernetes.io/service-name": "web"}},
  "addressType": "IPv4", "endpoints": [{"addresses": ["10.99.7.1"], "conditions": {"ready": true}}],
  "ports": [{"name": "http", "protocol": "TCP", "port": 8080}, {"name": "admin", "protocol": "TCP", "port": 8081}]}]}`
)

func testUserspaceProgram(t *testing.T, h *bridgeHost) {
	h.build("../../..", "go", "build", "-o", filepath.Join(h.prefix.DriveC(), "kube-proxy.exe"), "./cmd/porthole")
	h.serveAPI("10.99.7.1:6443",
		map[string]string{"/api/v1/services": userspaceServices,
			"/apis/discovery.k8s.io/v1/endpointslices": userspaceSlices,
			"/api/v1/nodes": `{"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}`})
	h.greet("10.99.7.1:8080", "web")
	h.greet("10.99.7.1:8081", "admin")
	h.echoUDP("10.99.7.1:5353", "dns")
	h.echoUDP("10.99.7.1:5354", "names")
	writeKubeconfig(t, h, "kubeconfig", "10.99.7.1:6443")
	args := []string{`--kubeconfig=C:\kubeconfig`, "--hostname-override=win01", "--proxy-mode=userspace",
		"--service-interface=Ethernet 2",
		`--state-file=C:\var\addresses.json`, "--v=4"}
	ours := []string{"10.96.0.10", "10.96.0.11", "10.96.0.20", "198.51.100.9"}

	ctx, kill := context.WithCancel(t.Context())
	out, ended := h.startFor(ctx, `C:\kube-proxy.exe`, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
	h.addressesBecome(t, "the start", ours)
	h.greeted(t, h.out, "10.96.0.20:80", "web")
	h.greeted(t, h.out, "10.96.0.20:81", "admin")
	h.greeted(t, h.out, "10.99.7.21:30080", "web")
	h.greeted(t, h.path, "198.51.100.9:80", "web")
	h.greeted(t, h.path, "10.96.0.20:80", "web")
	h.greeted(t, h.path, "127.0.0.1:30081", "admin")
	h.queries(t, "10.96.0.10:53", "dns", 10_000)
	h.queries(t, "10.96.0.11:53", "names", 500)
	h.queries(t, "10.99.7.21:30053", "dns", 500)
	// Somebody takes an address away: Windows tells, and it is put back.
	must(t, platform.InNetns(h.path,
		func() error { return platform.Addresses{}.Remove("svc0", netip.MustParseAddr("10.96.0.20")) }))
	h.addressesBecome(t, "an address was taken away", ours)
	h.greeted(t, h.out, "10.96.0.20:80", "web")
	// Killed, it leaves everything; the next one finds it right, and the clean-up takes what is ours.
	kill()
	<-ended
	h.addressesBecome(t, "the kill", ours)
	ctx, kill = context.WithCancel(t.Context())
	again, ended := h.startFor(ctx, `C:\kube-proxy.exe`, args...)
	h.greeted(t, h.out, "10.96.0.20:80", "web")
	kill()
	<-ended
	if strings.Contains(again.String(), "add address") ||
		!strings.Contains(again.String(), "listen 10.96.0.20:80/TCP") {
		t.Errorf("the second start:\n%s", again)
	}
	cleaning, exit := h.start(`C:\kube-proxy.exe`, append(args, "--cleanup")...)
	if err := <-exit; err != nil {
		t.Errorf("cleaning up: %v\n%s", err, cleaning)
	}
	h.addressesBecome(t, "the clean-up", ours[3:])
}

// startFor runs a program of the host until ctx ends, which kills it.
func (h *bridgeHost) startFor(ctx context.Context, exe string, args ...string) (out *testkit.Buffer,
	ended <-chan struct{}) {
	h.t.Helper()
	out = &testkit.Buffer{}
	cmd := h.tools.Command(ctx, h.prefix, exe, args...)
	cmd.Stdout, cmd.Stderr = out, out
	must(h.t, platform.StartInNetns(h.path, cmd))
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	return out, done
}

// addressesBecome waits until svc0, which Windows shows as "Ethernet 2", has those IPv4 addresses.
func (h *bridgeHost) addressesBecome(t *testing.T, after string, want []string) {
	t.Helper()
	begin := time.Now()
	wait.NoError(t, 30*time.Second, "the addresses after "+after, func() error {
		var have []string
		must(t, platform.InNetns(h.path, func() error {
			_, all, err := platform.Addresses{}.List()
			for _, a := range all {
				if a.Interface == "svc0" && a.Addr.Is4() {
					have = append(have, a.Addr.String())
				}
			}
			return err
		}))
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("%q, want %q", have, want)
		}
		return nil
	})
	t.Logf("after %s: right within %v", after, time.Since(begin))
}

// serveAPI is an API server outside the host that knows lists, and watches in which nothing happens.
func (h *bridgeHost) serveAPI(addr string, lists map[string]string) {
	var listener net.Listener
	must(h.t, platform.InNetns(h.out, func() (err error) {
		listener, err = net.Listen("tcp4", addr)
		return err
	}))

	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			list, known := lists[r.URL.Path]
			switch {
			case r.FormValue("sendInitialEvents") != "":
				w.WriteHeader(http.StatusUnprocessableEntity)
				json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure",
					"reason": "Invalid", "code": 422})
			case r.FormValue("watch") != "":
				w.WriteHeader(http.StatusOK)
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case known:
				io.WriteString(w, list)
			default:
				w.WriteHeader(http.StatusNotFound)
				json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure",
					"reason": "NotFound", "code": 404})
			}
		})}

	go server.Serve(listener)
	h.t.Cleanup(func() {
		cancel()
		server.Close()
	})
}

// greet runs a server outside the host that says its name.
func (h *bridgeHost) greet(addr, name string) {
	var l net.Listener
	must(h.t, platform.InNetns(h.out, func() (err error) {
		l, err = net.Listen("tcp4", addr)
		return err
	}))
	h.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, name)
			c.Close()
		}
	}()
}

// greeted waits until the server at an address gives its name; "" expects that it cannot be reached.
func (h *bridgeHost) greeted(t *testing.T, from, to, want string) {
	t.Helper()
	dial := func() (c net.Conn, err error) {
		err = platform.InNetns(from, func() error {
			c, err = net.DialTimeout("tcp4", to, 2*time.Second)
			return err
		})
		return c, err
	}
	if want == "" {
		if c, err := dial(); err == nil {
			c.Close()
			t.Errorf("%s can be reached", to)
		}
		return
	}

	wait.NoError(t, 20*time.Second, "the greeting of "+to, func() error {
		c, err := dial()
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		got, err := io.ReadAll(c)
		if err == nil && string(got) != want {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}

// echoUDP runs a server outside the host that gives datagrams back behind its name.
func (h *bridgeHost) echoUDP(addr, name string) {
	var c net.PacketConn
	must(h.t, platform.InNetns(h.out, func() (err error) {
		c, err = net.ListenPacket("udp4", addr)
		return err
	}))
	h.t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo(append([]byte(name+" "), buf[:n]...), from)
		}
	}()
}

// queries sends n datagrams from as many sockets, 50 at a time; each must come back, from where it went, from the
// server of that name.
func (h *bridgeHost) queries(t *testing.T, to, name string, n int) {
	t.Helper()
	// somebody must listen first
	wait.NoError(t, 20*time.Second, "the first answer", func() error { return h.query(to, name, "first") })
	var next, lost atomic.Int64
	var mu sync.Mutex
	var times []time.Duration
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n) && lost.Load() < 10; i = next.Add(1) {
				begin := time.Now()
				if err := h.query(to, name, fmt.Sprintf("query %d", i)); err != nil {
					lost.Add(1)
					t.Error(err)
					continue
				}
				mu.Lock()
				times = append(times, time.Since(begin))
				mu.Unlock()
			}
		})
	}

	group.Wait()
	slices.Sort(times)
	if len(times) != n {
		t.Errorf("%d answers of %d", len(times), n)
		return
	}
	t.Logf("%d queries to %s: median %v, 99th percentile %v", n, to, times[n/2], times[n*99/100])
}

func (h *bridgeHost) query(to, name, text string) error {
	var c net.Conn
	if err := platform.InNetns(h.out, func() (err error) {
		c, err = net.Dial("udp4", to)
		return err
	}); err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	buf := make([]byte, 1500)
	size, err := c.Read(buf)
	if err == nil && string(buf[:size]) != name+" "+text {
		err = fmt.Errorf("asked %q, answered %q", text, buf[:size])
	}
	return err
}
