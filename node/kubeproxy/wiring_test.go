package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"porthole.dev/porthole/internal/networkapi"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// bench is the wiring around a fake API.
func bench(t *testing.T, fake *fake.Clientset) (*parts, context.Context) {
	client := &networkapi.Client{
		Services: func(namespace string) networkapi.Lister[*corev1.ServiceList] {
			return fake.CoreV1().Services(namespace)
		},
		Slices: fake.DiscoveryV1().EndpointSlices(""), Nodes: fake.CoreV1().Nodes(),
		Events: &typedcorev1.EventSinkImpl{Interface: fake.CoreV1().Events("")}, NoWatchLists: true,
	}

	ctx, stop := context.WithCancel(context.Background())
	given := Options{Hostname: "win01", Mode: Kernelspace,
		NodePortRanges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	p := &parts{Options: given, client: client, events: networkapi.NewServiceEvents(ctx, client, "kube-proxy", "win01")}
	var err error
	if p.node, err = networkapi.WatchOwnNode(ctx, client, "win01"); err != nil {
		t.Fatal(err)
	}

	p.server = health.New(health.Options{Node: "win01", Eligible: p.node.Eligible, Events: serviceEvents{p.events}})
	t.Cleanup(func() {
		stop()
		p.background.Wait()
		p.events.Close()
	})
	return p, ctx
}

func webService(port int32) (*corev1.Service, *discoveryv1.EndpointSlice) {
	node, yes, target, name, tcp := "win01", true, int32(8080), "", corev1.ProtocolTCP
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10",
				ClusterIPs:            []string{"10.96.0.10"},
				IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol},
				ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: port,
				Ports: []corev1.ServicePort{{Protocol: tcp, Port: 80, NodePort: 30080}}}},
		&discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1",
				Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &tcp, Port: &target}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.2.5"}, NodeName: &node,
				Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}}}}
}

// TestSource follows a service from the API to the mode, the metrics and the health check port.
func TestSource(t *testing.T) {
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	port := squatter.Addr().(*net.TCPAddr).Port
	web, slice := webService(int32(port))
	client := fake.NewClientset(web, slice, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01"}})
	p, ctx := bench(t, client)
	source := p.source(ctx, service.Refuse)
	var got []service.State
	wait.NoError(t, 20*time.Second, "the service arrives", func() error {
		states, complete := source.take()
		got = append(got, states...)
		if !complete || len(got) == 0 {
			return fmt.Errorf("complete %v, %d states", complete, len(got))
		}
		return nil
	})

	if s := got[0]; s.Service != "shop/web" || len(s.Frontends) != 2 || len(s.Frontends[0].Backends) != 1 ||
		!s.Frontends[0].Backends[0].Local {
		t.Errorf("state %+v", s)
	}
	w := httptest.NewRecorder()
	p.server.MetricsHandler(health.Pages{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"kubeproxy_sync_proxy_rules_service_changes_total 1\n",
		"kubeproxy_sync_proxy_rules_endpoint_changes_total 1\n",
		"kubeproxy_sync_proxy_rules_service_changes_pending 0\n"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}

	wait.NoError(t, 20*time.Second, "an event tells that the port is taken", func() error {
		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Reason != health.ReasonHealthCheck ||
			list.Items[0].InvolvedObject.UID != "u" {
			return fmt.Errorf("%w, %d events", err, len(list.Items))
		}
		return nil
	})

	_ = squatter.Close()
	p.server.Pass(health.Pass{Observed: time.Now(), Ready: true})
	ask := func(code int, part string) func() error {
		return func() error {
			resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != code || !strings.Contains(string(body), part) {
				return fmt.Errorf("%d %s (%v)", resp.StatusCode, body, err)
			}
			return nil
		}
	}

	wait.NoError(t, 20*time.Second, "the port answers when it is free", ask(200, `"localEndpoints":1`))
	if err := client.DiscoveryV1().EndpointSlices("shop").
		Delete(t.Context(), "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.NoError(t, 20*time.Second, "without endpoints it says so",
		func() error { source.take(); return ask(503, `"localEndpoints":0`)() })
	if err := client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	wait.NoError(t, 20*time.Second, "without the service the port is closed", func() error {
		source.take()
		if err := ask(0, "")(); err == nil || !strings.Contains(err.Error(), "refused") {
			return errors.Join(errors.New("still open"), err)
		}
		return nil
	})
}

func TestPrimaryAddresses(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win01"}}
	for _, a := range []string{"10.0.0.4", "fd00::4", "10.0.0.5"} {
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	p, _ := bench(t, fake.NewClientset())
	if _, err := p.primaryAddresses(); err == nil {
		t.Error("addresses of an unknown node")
	}
	p, _ = bench(t, fake.NewClientset(node))
	wait.NoError(t, 20*time.Second, "addresses are known", func() error {
		got, err := p.primaryAddresses()
		if err == nil && fmt.Sprint(got) != "[10.0.0.4 fd00::4]" {
			err = fmt.Errorf("got %v", got)
		}
		return err
	})
}

func TestAPIAddresses(t *testing.T) {
	for master, want := range map[string]string{"https://192.0.2.9:6443": "[192.0.2.9]",
		"192.0.2.9:8080": "[192.0.2.9]", "http://[fd00::1]:80/x": "[fd00::1]",
		"https://api.example": "[]", "": "[]"} {
		if got := fmt.Sprint(apiAddresses(master)); got != want {
			t.Errorf("%q: %s, want %s", master, got, want)
		}
	}
}

func TestLimitGarbage(t *testing.T) {
	for env, want := range map[string]int{"": 55, "GOGC": 77, "GOMEMLIMIT": 77} {
		before := debug.SetGCPercent(77)
		limitGarbage(func(name string) string {
			if name == env {
				return "set"
			}
			return ""
		}, 55)
		if got := debug.SetGCPercent(before); got != want {
			t.Errorf("with %q: GC percent %d, want %d", env, got, want)
		}
	}
}

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1 << 20: 100, 8 << 20: 50, 32 << 20: 12, 1 << 30: 10} {
		if got := percentFor(live); got != want {
			t.Errorf("of %d bytes: %d %%, want %d", live, got, want)
		}
	}
	debug.FreeOSMemory()
	if live := liveHeap(); live < 1<<16 || live > 1<<32 {
		t.Errorf("%d bytes live", live)
	}
}

// TestNodeMAC: an address is found on its interface; neither loopback nor an unknown destination has a hardware
// address.
func TestNodeMAC(t *testing.T) {
	if got := nodeMAC([]netip.Addr{netip.MustParseAddr("127.0.0.1")}); got != "" && got != "00-00-00-00-00-00" {
		t.Errorf("loopback: %q", got)
	}
	if got := nodeMAC(nil); got != "" {
		t.Errorf("nowhere: %q", got)
	}

	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}

	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil || len(addrs) == 0 || len(i.HardwareAddr) == 0 {
			continue
		}
		n := addrs[0].(*net.IPNet)
		want := strings.ToUpper(strings.ReplaceAll(i.HardwareAddr.String(), ":", "-"))
		if got := macOf(&net.UDPAddr{IP: n.IP}); got != want {
			t.Errorf("%s: %q, want %q", n.IP, got, want)
		}
	}
}

func TestProbes(t *testing.T) {
	p, ctx := bench(t, fake.NewClientset())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	at := netip.MustParseAddrPort(l.Addr().String())
	if err := connect(ctx, at); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	if connect(ctx, at) == nil {
		t.Error("a closed port answers")
	}
	p.probed()("lost")
	page := httptest.NewRecorder()
	p.server.MetricsHandler(health.Pages{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{`porthole_proxy_probe_total{result="lost"} 1`,
		`porthole_proxy_probe_total{result="answered"} 0`} {
		if !strings.Contains(page.Body.String(), line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
