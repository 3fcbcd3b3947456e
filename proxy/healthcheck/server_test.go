package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/proxy/service"
)

// bench runs a server on loopback sockets.
type bench struct {
	*Server
	mu      sync.Mutex
	serving map[string]bool
	told    chan string
}

func start(t *testing.T, o Options) *bench {
	b := &bench{serving: map[string]bool{}, told: make(chan string, 100)}
	o.Ranges = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	o.Addresses = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil }
	o.Serving = func(name string) bool { b.mu.Lock(); defer b.mu.Unlock(); return !b.serving[name] }
	o.Failed = func(name string, _ uint16, _ error) { b.told <- name }
	o.RetryMin, o.RetryMax = 5*time.Millisecond, 20*time.Millisecond
	b.Server = New(o)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return b
}

func freePort(t *testing.T) uint16 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

type reply struct {
	code   int
	weight string
	header http.Header
	body   string
}

// ask sends one request. Code 0 means that there was no answer.
func ask(port uint16) reply {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://127.0.0.1:" + strconv.Itoa(int(port)) + "/healthz")
	if err != nil {
		return reply{}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header.Get("X-Load-Balancing-Endpoint-Weight"), resp.Header, string(text)}
}

func TestAnswers(t *testing.T) {
	b := start(t, Options{})
	port := freePort(t)
	b.Set("shop/web", &service.HealthCheck{Service: "shop/web", Port: port, LocalEndpoints: 2})
	wait.True(t, 20*time.Second, "port opens", func() bool { return ask(port).code == 200 })
	got := ask(port)
	want := map[string]any{"service": map[string]any{"namespace": "shop", "name": "web"}, "localEndpoints": 2.0,
		"serviceProxyHealthy": true}
	var doc map[string]any
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil || !reflect.DeepEqual(doc, want) {
		t.Errorf("body %s (%v), want %v", got.body, err, want)
	}
	if got.weight != "2" || got.header.Get("Content-Type") != "application/json" ||
		got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", got.header)
	}

	b.Set("shop/web", &service.HealthCheck{Service: "shop/web", Port: port})
	if got := ask(port); got.code != 503 || got.weight != "0" {
		t.Errorf("without endpoints: %d, weight %s, want 503 and 0", got.code, got.weight)
	}

	b.Set("shop/web", &service.HealthCheck{Service: "shop/web", Port: port, LocalEndpoints: 1})
	b.mu.Lock()
	b.serving["shop/web"] = true
	b.mu.Unlock()
	if got := ask(port); got.code != 503 || got.weight != "1" {
		t.Errorf("not served: %d, weight %s, want 503 and 1", got.code, got.weight)
	}

	b.Set("shop/web", nil)
	wait.True(t, 20*time.Second, "port closes", func() bool { return ask(port).code == 0 })
}

// TestTakenPort: a port in use is reported once, has no effect on other services, and is opened once it is free. A
// service that replaces another one gets its port.
func TestTakenPort(t *testing.T) {
	b := start(t, Options{})
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	taken, free := uint16(squatter.Addr().(*net.TCPAddr).Port), freePort(t)
	b.Set("a/taken", &service.HealthCheck{Port: taken, LocalEndpoints: 1})
	b.Set("b/free", &service.HealthCheck{Port: free, LocalEndpoints: 1})
	wait.True(t, 20*time.Second, "the other port opens", func() bool { return ask(free).code == 200 })
	if name := <-b.told; name != "a/taken" {
		t.Errorf("told of %s", name)
	}
	squatter.Close()
	wait.True(t, 20*time.Second, "the freed port opens", func() bool { return ask(taken).code == 200 })
	select {
	case name := <-b.told:
		t.Errorf("told again, of %s", name)
	default:
	}
	b.Set("b/free", nil)
	b.Set("c/next", &service.HealthCheck{Port: free, LocalEndpoints: 3})
	wait.True(t, 20*time.Second, "the next service answers", func() bool { return ask(free).weight == "3" })
}

// TestServeFails: a listener that fails is reported.
func TestServeFails(t *testing.T) {
	b := start(t, Options{Listen: func(string, string) (net.Listener, error) { return brokenListener{}, nil }})
	b.Set("a/b", &service.HealthCheck{Port: 1, LocalEndpoints: 1})
	if name := <-b.told; name != "a/b" {
		t.Errorf("told of %q", name)
	}
}

type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("broken") }
func (brokenListener) Close() error              { return nil }
func (brokenListener) Addr() net.Addr            { return &net.TCPAddr{} }

func TestPlan(t *testing.T) {
	any4 := []netip.Addr{{}}
	check := func(port uint16) service.HealthCheck { return service.HealthCheck{Port: port} }

	for _, c := range []struct {
		name   string
		wanted map[string]service.HealthCheck
		addrs  []netip.Addr
		open   map[at]string
		want   changes
		owner  string // of the first socket that is wanted
	}{
		{"nothing", nil, any4, nil, changes{}, ""},
		{"new", map[string]service.HealthCheck{"a": check(9)}, any4, nil, changes{open: []at{{port: 9}}}, "a"},
		{"stays", map[string]service.HealthCheck{"a": check(9)}, any4, map[at]string{{port: 9}: ""}, changes{}, "a"},
		{"goes", nil, any4, map[at]string{{port: 9}: "", {port: 3}: ""}, changes{close: []at{{port: 3}, {port: 9}}},
			""},
		{"moves", map[string]service.HealthCheck{"a": check(8)}, any4, map[at]string{{port: 9}: ""},
			changes{close: []at{{port: 9}}, open: []at{{port: 8}}}, "a"},
		{"two of one port", map[string]service.HealthCheck{"b": check(9), "a": check(9)}, any4, nil,
			changes{open: []at{{port: 9}}}, "a"},
		{"addresses change", map[string]service.HealthCheck{"a": check(9)},
			[]netip.Addr{netip.MustParseAddr("10.0.0.2")},
			map[at]string{{netip.MustParseAddr("10.0.0.1"), 9}: ""},
			changes{close: []at{{netip.MustParseAddr("10.0.0.1"), 9}},
				open: []at{{netip.MustParseAddr("10.0.0.2"), 9}}}, "a"},
	} {
		got, owners := plan(c.wanted, c.addrs, c.open)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}

		for socket, owner := range owners {
			if owner != c.owner {
				t.Errorf("%s: %s belongs to %s, want %s", c.name, socket, owner, c.owner)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	node := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.4"), netip.MustParseAddr("::1"),
		netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("fd00::4")}
	for ranges, want := range map[string]string{
		"10.0.0.0/8": "[10.0.0.4]", "fd00::/8": "[fd00::4]", "192.0.2.0/24": "[invalid IP]",
		"0.0.0.0/0": "[127.0.0.1 10.0.0.4]",
	} {
		got := choose([]netip.Prefix{netip.MustParsePrefix(ranges)}, node)
		text := "["
		for i, a := range got {
			if i > 0 {
				text += " "
			}
			text += a.String()
		}
		if text += "]"; text != want {
			t.Errorf("%s: %s, want %s", ranges, text, want)
		}
	}
}
