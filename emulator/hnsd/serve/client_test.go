package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
)

// fakePlane remembers what it was asked for last.
type fakePlane struct {
	mu   sync.Mutex
	last desired.State
}

func (p *fakePlane) Apply(_ context.Context, d desired.State) (map[string]error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = d
	return nil, nil
}

func (p *fakePlane) balancers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.last.LoadBalancers)
}

// server is an HNS of its own process, without kernel: wire on loopback, control by HTTP.
type server struct {
	t       *testing.T
	s       *Service
	dir     string // of its files
	plane   *fakePlane
	addr    string
	handler http.Handler
}

// optionsIn are those of a service with its files in a folder.
func optionsIn(dir string, host *hnsd.Host, plane DataPlane) options {
	return options{host: host, plane: plane, journal: filepath.Join(dir, "state.jsonl"),
		lost: filepath.Join(dir, "unplumbed.json")}
}

func startServer(t *testing.T, build int) *server {
	t.Helper()
	plane := &fakePlane{}
	s := startServerOn(t, build, plane)
	s.plane = plane
	return s
}

// startServerOn starts one with a data plane of the test's.
func startServerOn(t *testing.T, build int, plane DataPlane) *server {
	t.Helper()
	profile, err := hnsd.ProfileOf(build)
	must(t, err)
	dir := t.TempDir()
	s, err := newService(optionsIn(dir, &hnsd.Host{Profile: profile, NodeAddr: "10.99.7.21",
		NodeMAC: "00-15-5D-00-00-01", NewID: newID}, plane))
	must(t, err)
	must(t, s.restore(t.Context()))
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.accept(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return &server{t: t, s: s, dir: dir, addr: l.Addr().String(), handler: s.controls(ctx)}
}

// control makes a call of the control interface and decodes its answer.
func (s *server) control(method, path, body string, into any) {
	s.t.Helper()
	if code, answer := s.tryControl(method, path, body); code != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, code, answer)
	} else if into != nil {
		must(s.t, json.Unmarshal([]byte(answer), into))
	}
}

func (s *server) tryControl(method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// thread is one thread of a Windows program.
type thread struct {
	t    *testing.T
	conn net.Conn
	hns  *wire.Conn
}

func (s *server) connect(program string, process uint64) *thread {
	s.t.Helper()
	conn, err := net.Dial("tcp4", s.addr)
	must(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	hns, err := wire.NewConn(conn, process, program)
	must(s.t, err)
	return &thread{s.t, conn, hns}
}

func (c *thread) send(op wire.Op, handle uint64, guid string, texts ...string) {
	c.t.Helper()
	q := wire.Request{Op: op, Handle: handle, GUID: guid}
	copy(q.Text[:], texts)
	must(c.t, c.hns.Send(q))
}

// reply of a call.
type callReply struct {
	result uint32
	handle uint64
	text   string
	record string
}

func (c *thread) receive() (callReply, error) {
	must(c.t, c.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	a, err := c.hns.Receive()
	r := callReply{result: a.Result, handle: a.Handle}
	if a.Text[0] != nil {
		r.text = *a.Text[0]
	}
	if a.Text[1] != nil {
		r.record = *a.Text[1]
	}
	return r, err
}

func (c *thread) try(op wire.Op, handle uint64, guid string, texts ...string) (callReply, error) {
	c.t.Helper()
	c.send(op, handle, guid, texts...)
	return c.receive()
}

// call makes a call whose connection must live.
func (c *thread) call(op wire.Op, handle uint64, guid string, texts ...string) callReply {
	c.t.Helper()
	a, err := c.try(op, handle, guid, texts...)
	must(c.t, err)
	return a
}

// good makes a call that must succeed.
func (c *thread) good(op wire.Op, handle uint64, guid string, texts ...string) callReply {
	c.t.Helper()
	a := c.call(op, handle, guid, texts...)
	if a.result != 0 {
		c.t.Fatalf("call %d: %#x %s", op, a.result, a.record)
	}
	return a
}

func (c *thread) network() (handle uint64) {
	c.t.Helper()
	return c.good(wire.On(hnsd.Network, wire.Create), 0, "", bridgeNetwork).handle
}

// remote makes a remote endpoint and gives its id.
func (c *thread) remote(network uint64, addr string) string {
	c.t.Helper()
	h := c.good(wire.On(hnsd.Endpoint, wire.Create), network, "", remoteAt(addr)).handle
	return c.idOf(hnsd.Endpoint, h)
}

func remoteAt(addr string) string {
	return fmt.Sprintf(
		`{"IpConfigurations":[{"IpAddress":%q}],"MacAddress":"02-11-0a-f4-03-05","Flags":1,"SchemaVersion":{"Major":2,"Minor":0}}`, addr)
}

// remoteEndpoint is the document of the i-th of many.
func remoteEndpoint(i int) string {
	return remoteAt(fmt.Sprintf("10.%d.%d.%d", 245+i>>16, i>>8&255, i&255))
}

func (c *thread) idOf(kind hnsd.Kind, handle uint64) string {
	c.t.Helper()
	var d struct{ ID string }
	must(c.t, json.Unmarshal([]byte(c.good(wire.On(kind, wire.Query), handle, "").text), &d))
	return d.ID
}

func balancer(vip string, port int, backends ...string) string {
	list, _ := json.Marshal(backends)
	return fmt.Sprintf(
		`{"HostComputeEndpoints":%s,"FrontendVIPs":[%q],"PortMappings":[{"Protocol":6,"InternalPort":8080,"ExternalPort":%d}],"SchemaVersion":{"Major":2,"Minor":0}}`, list, vip, port)
}

// ids lists a kind.
func (c *thread) ids(kind hnsd.Kind) []string {
	c.t.Helper()
	var ids []string
	must(c.t, json.Unmarshal([]byte(c.good(wire.On(kind, wire.Enumerate), 0, "").text), &ids))
	return ids
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
