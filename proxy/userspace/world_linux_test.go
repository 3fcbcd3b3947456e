package userspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/proxy/relay"
	"porthole.dev/porthole/proxy/service"
)

const limit = 20 * time.Second

// Addresses of the world below.
const (
	hostIP, outIP   = "10.99.7.21", "10.99.7.1"
	pod1IP, pod2IP  = "10.244.7.3", "10.244.7.4"
	foreignIP       = "198.51.100.9" // on svc0 before the proxy comes
	controlEndpoint = "127.0.0.1:18080"
)

// world is a host with two pods, and an outside that is one hop away. All are network namespaces of this test.
//
//	out 10.99.7.1 ──── eth0 10.99.7.21  host  10.244.7.1 veth1 ──── 10.244.7.3 pod1
//	                                    svc0        .1.1 veth2 ──── 10.244.7.4 pod2
type world struct {
	t                     *testing.T
	host, out, pod1, pod2 string // paths
	state                 string
	setup                 childSetup
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	host, out, pod1, pod2 := netspace.New(t, "host"), netspace.New(t, "out"), netspace.New(t, "pod1"), netspace.New(t,
		"pod2")
	out.Connect("eth0", host, "eth0")
	out.Address("eth0", outIP+"/24")
	host.Address("eth0", hostIP+"/24")
	out.Route("0.0.0.0/0", hostIP)
	connectPod(host, "veth1", pod1, pod1IP)
	connectPod(host, "veth2", pod2, pod2IP)
	host.Bridge("svc0")
	host.Address("svc0", foreignIP+"/32")
	host.Forward()

	w := &world{t: t, state: filepath.Join(t.TempDir(), "deeper", "addresses.json"),
		host: host.Path, out: out.Path, pod1: pod1.Path, pod2: pod2.Path}
	w.setup = childSetup{Listen: controlEndpoint, Interface: "svc0", StateFile: w.state,
		Cluster:  []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Reserved: []netip.Addr{addr(outIP)}, RetryMin: 50 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		Period: time.Second}
	return w
}

// connectPod connects a pod to the host with a veth pair without a common prefix.
func connectPod(host *netspace.Space, hostEnd string, pod *netspace.Space, address string) {
	const gateway = "10.244.7.1"
	pod.Connect("eth0", host, hostEnd)
	host.Address(hostEnd, gateway+"/32")
	host.LinkRoute(address+"/32", hostEnd)
	pod.Address("eth0", address+"/32")
	pod.LinkRoute(gateway+"/32", "eth0")
	pod.Route("0.0.0.0/0", gateway)
}

func (w *world) in(path string, f func() error) {
	w.t.Helper()
	must(w.t, platform.InNetns(path, f))
}

// proxy is a running child.
type proxy struct {
	w      *world
	cmd    *exec.Cmd
	out    *testkit.Buffer
	ended  chan struct{}
	client http.Client
}

func (w *world) start() *proxy {
	w.t.Helper()
	setup, err := json.Marshal(w.setup)
	must(w.t, err)

	p := &proxy{w: w, out: &testkit.Buffer{}, ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(setup))
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	must(w.t, platform.StartInNetns(w.host, p.cmd))
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if w.t.Failed() {
			w.t.Logf("proxy:\n%s", p.out)
		}
	})

	p.client = http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return w.dial(w.host, "tcp4", controlEndpoint)
		}}}
	wait.True(w.t, limit, "the proxy's start", func() bool {
		_, err := p.get()
		return err == nil
	})
	return p
}

func (p *proxy) signal(s syscall.Signal) {
	p.w.t.Helper()
	must(p.w.t, p.cmd.Process.Signal(s))
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.w.t.Fatalf("the proxy does not end after %v", s)
	}
}

func (p *proxy) get() (r childReport, err error) {
	resp, err := p.client.Get("http://proxy/report")
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// set gives the proxy services and waits until a pass has taken them in.
func (p *proxy) set(states ...service.State) {
	p.w.t.Helper()
	before, err := p.get()
	must(p.w.t, err)
	must(p.w.t, p.post(states))
	wait.True(p.w.t, limit, "the services to be taken", func() bool {
		r, err := p.get()
		must(p.w.t, err)
		return r.Taken >= before.Taken+len(states) && r.Passes > before.Passes &&
			r.Pass.Started.After(before.Pass.Started)
	})
}

func (p *proxy) post(states []service.State) error {
	body, err := json.Marshal(states)
	if err != nil {
		return err
	}
	resp, err := p.client.Post("http://proxy/services", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func (p *proxy) stats() map[string]relay.Stats {
	p.w.t.Helper()
	resp, err := p.client.Get("http://proxy/stats")
	must(p.w.t, err)
	defer resp.Body.Close()
	var s map[string]relay.Stats
	must(p.w.t, json.NewDecoder(resp.Body).Decode(&s))
	return s
}

func state(name string, frontends ...service.Frontend) service.State {
	for i := range frontends {
		frontends[i].Service = name
	}
	return service.State{Service: name, Frontends: frontends}
}

// addresses lists the addresses of the host's interfaces, except loopback.
func (w *world) addresses(iface string) (out []string) {
	w.t.Helper()
	w.in(w.host, func() error {
		_, all, err := platform.Addresses{}.List()
		for _, a := range all {
			if a.Interface == iface && !a.Addr.IsLinkLocalUnicast() {
				out = append(out, a.Addr.String())
			}
		}
		return err
	})
	slices.Sort(out)
	return out
}

func (w *world) dial(path, network, to string) (c net.Conn, err error) {
	err = platform.InNetns(path, func() error {
		c, err = net.DialTimeout(network, to, limit)
		return err
	})
	if err == nil {
		err = c.SetDeadline(time.Now().Add(limit))
	}
	return c, err
}

// serveTCP runs a server that sends its name and the client's address in brackets, and then echoes.
func (w *world) serveTCP(path, name, at string) (stop func()) {
	w.t.Helper()
	var l net.Listener
	w.in(path, func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				client, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprintf(c, "<%s %s>", name, client)
				io.Copy(c, c)
			}()
		}
	}()
	stop = sync.OnceFunc(func() { l.Close() })
	w.t.Cleanup(stop)
	return stop
}

// serveUDP answers each datagram in the same way.
func (w *world) serveUDP(path, name, at string) {
	w.t.Helper()
	var c net.PacketConn
	w.in(path, func() (err error) {
		c, err = net.ListenPacket("udp", at)
		return err
	})
	w.t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo(append([]byte(name+" "), buf[:n]...), from)
		}
	}()
}

// call connects and returns the greeting, "name client", or the error.
func (w *world) call(path, to string) (string, net.Conn, error) {
	c, err := w.dial(path, "tcp", to)
	if err != nil {
		return "", nil, err
	}
	var text []byte
	for b := make([]byte, 1); !bytes.HasSuffix(text, []byte(">")); text = append(text, b[0]) {
		if _, err := io.ReadFull(c, b); err != nil {
			c.Close()
			return "", nil, err
		}
	}
	return string(bytes.Trim(text, "<>")), c, nil
}

func (w *world) expect(what, path, to, want string) {
	w.t.Helper()
	got, c, err := w.call(path, to)
	if err != nil {
		w.t.Errorf("%s: %v", what, err)
		return
	}
	c.Close()
	if got != want {
		w.t.Errorf("%s: greeted by %q, want %q", what, got, want)
	}
}

// refused expects that a connection is refused at once, or reset.
func (w *world) refused(what, path, to string) {
	w.t.Helper()
	got, c, err := w.call(path, to)
	if err == nil {
		c.Close()
		w.t.Errorf("%s: greeted by %q", what, got)
	} else if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
		w.t.Errorf("%s: %v, want a refusal", what, err)
	}
}
