package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/dataplanetest"
	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/links"
	"porthole.dev/porthole/emulator/dataplane/rtnl"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
)

// A world is two emulated nodes and the outside, each a network namespace of its own:
//
//	out: switch sw0 10.99.0.1/24, 203.0.113.1 on lo
//	a:   eth0 10.99.0.21, pods 10.244.1.0/24      b: eth0 10.99.0.22, pods 10.244.2.0/24
type world struct {
	t   *testing.T
	ctx context.Context
	id  string
	// spaces are the network namespaces, by name.
	spaces map[string]*netspace.Space
	a, b   *node
}

type node struct {
	w       *world
	name    string
	addr    netip.Addr
	pods    netip.Prefix
	dp      *DataPlane
	desired desired.State
}

const (
	netID   = dataplanetest.NetID
	outside = "203.0.113.1"
	hostNS  = "22222222-0000-0000-0000-000000000001"
)

var worlds atomic.Int32

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}

	w := &world{t: t, ctx: t.Context(), spaces: map[string]*netspace.Space{},
		id: fmt.Sprintf("dptest-%d-%d", os.Getpid(), worlds.Add(1))}
	out := w.makeNetns("out")
	out.Bridge("sw0")
	out.Address("sw0", "10.99.0.1/24")
	out.Address("lo", outside+"/32")
	out.Do(func() error { // packets for an address that nobody has are lost silently, as in the outside world
		return netlink.RouteAdd(&netlink.Route{Dst: rtnl.Anywhere(netip.IPv4Unspecified()), Type: unix.RTN_BLACKHOLE})
	})
	out.Forward()
	out.Sysctls(map[string]string{"net/ipv4/conf/all/send_redirects": "0", "net/ipv4/conf/sw0/send_redirects": "0"})
	w.a = w.makeNode("a", "10.99.0.21", "10.244.1.0/24")
	w.b = w.makeNode("b", "10.99.0.22", "10.244.2.0/24")
	for _, n := range []*node{w.a, w.b} {
		for _, from := range []string{"a", "b", "out"} {
			if from != n.name {
				w.spaces[from].Route(n.pods.String(), n.addr.String())
			}
		}
	}
	return w
}

func (w *world) makeNode(name, addr, pods string) *node {
	space, out := w.makeNetns(name), w.spaces["out"]
	out.Connect(name, space, "eth0")
	out.Bridge("sw0", name)
	space.Address("eth0", addr+"/24")
	space.Route("0.0.0.0/0", "10.99.0.1")

	n := &node{w: w, name: name, addr: netip.MustParseAddr(addr), pods: netip.MustParsePrefix(pods)}
	dp, err := New(Options{Netns: w.path(name)})
	must(w.t, err)
	n.dp = dp
	w.t.Cleanup(n.dp.Close)
	n.desired = desired.State{
		Networks: []desired.Network{{ID: netID, Type: "L2Bridge",
			Subnets: []desired.Subnet{{Prefix: n.pods, Gateway: n.pods.Addr().Next()}}}},
		Namespaces: []desired.Namespace{{ID: hostNS, Host: true}},
	}
	return n
}

func (w *world) path(name string) string { return platform.NetnsPath(w.id + "-" + name) }

func (w *world) makeNetns(name string) *netspace.Space {
	w.spaces[name] = netspace.Named(w.t, w.id+"-"+name)
	return w.spaces[name]
}

func (w *world) in(name string, f func() error) {
	w.t.Helper()
	must(w.t, platform.InNetns(w.path(name), f))
}

func (w *world) up(link, addr string) {
	l, err := netlink.LinkByName(link)
	must(w.t, err)
	if addr != "" {
		must(w.t, netlink.AddrReplace(l, rtnl.Addr(netip.MustParsePrefix(addr))))
	}
	must(w.t, netlink.LinkSetUp(l))
}

// pod adds an endpoint with the given last octet, in a namespace that a container runtime would have made.
func (n *node) pod(octet int, change ...func(*desired.Endpoint)) string {
	name := fmt.Sprintf("%s-pod%d", n.name, octet)
	n.w.makeNetns(name)
	must(n.w.t, links.PrepareNetns(n.w.path(name)))
	base := n.pods.Addr().As4()
	at := func(o int) netip.Addr { return netip.AddrFrom4([4]byte{base[0], base[1], base[2], byte(o)}) }
	ns := desired.Namespace{ID: "ns-" + name, Path: n.w.path(name)}
	e := desired.Endpoint{ID: n.epID(octet), Network: netID, Namespace: ns.ID,
		Addrs: []netip.Prefix{netip.PrefixFrom(at(octet), 24)},
		MAC:   fmt.Sprintf("00:15:5d:00:%02x:%02x", base[2], octet), Gateway: at(2),
		OutboundNAT: []desired.OutboundNAT{{Exceptions: prefixList("10.244.0.0/16", "10.96.0.0/16", "10.99.0.0/24")}},
		SDNRoutes:   []desired.SDNRoute{{Destination: netip.MustParsePrefix("10.96.0.0/16"), NeedEncap: true}}}
	for _, c := range change {
		c(&e)
	}
	n.desired.Namespaces = append(n.desired.Namespaces, ns)
	n.desired.Endpoints = append(n.desired.Endpoints, e)
	return name
}

func (n *node) epID(octet int) string { return fmt.Sprintf("ep-%s-%d", n.name, octet) }

// remote adds another node's address as a backend and returns its id.
func (n *node) remote(addr string, change ...func(*desired.Endpoint)) string {
	e := desired.Endpoint{ID: "remote-" + addr, Network: netID, Remote: true,
		Addrs: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(addr), 32)}}
	for _, c := range change {
		c(&e)
	}
	n.desired.Endpoints = append(n.desired.Endpoints, e)
	return e.ID
}

// apply makes the kernel carry what is desired. The node forwards, as its agents on Windows let it.
func (n *node) apply() {
	n.w.t.Helper()
	n.carry()
	n.forward(true)
}

// forward sets forwarding on the interfaces with the node's address and with that of the host's endpoint.
func (n *node) forward(on bool) {
	n.w.t.Helper()
	for _, name := range []string{"eth0", kernel.BridgeName(netID)} {
		if link, err := n.dp.handle.LinkByName(name); err == nil {
			for _, six := range []bool{false, true} {
				must(n.w.t, n.dp.SetForwarding(link.Attrs().Index, six, on))
			}
		}
	}
}

// carry is apply without what the host's agents do.
func (n *node) carry() {
	n.w.t.Helper()
	res, err := n.dp.Apply(n.w.ctx, n.desired)
	must(n.w.t, err)
	for id, err := range res {
		n.w.t.Errorf("object %s: %v", id, err)
	}
	drift, err := n.dp.Verify(n.w.ctx, n.desired)
	must(n.w.t, err)
	for _, d := range drift {
		n.w.t.Errorf("drift after apply: %s", d.Text)
	}
}

func lb(id, vip string, port, inner uint16, dsr bool, backends ...string) desired.LoadBalancer {
	l := desired.LoadBalancer{ID: id, DSR: dsr, Backends: backends}
	if vip != "" {
		l.VIPs = []netip.Addr{netip.MustParseAddr(vip)}
	}
	for _, proto := range []uint8{6, 17} {
		l.Ports = append(l.Ports, desired.LBPort{Protocol: proto, ExternalPort: port, InternalPort: inner})
	}
	return l
}

// serve answers every line or datagram with "<name> <client's address>" on TCP and UDP until the test ends.
func (w *world) serve(where, name string, port int) {
	w.t.Helper()

	w.in(where, func() error {
		l, err := net.Listen("tcp4", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { l.Close() })
		go serveTCP(l, name)
		addrs, err := net.InterfaceAddrs() // one socket each, so that an answer has the address that was asked
		if err != nil {
			return err
		}
		for _, a := range addrs {
			ip := a.(*net.IPNet).IP
			if ip.To4() == nil {
				continue
			}
			u, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", ip, port))
			if err != nil {
				return err
			}
			w.t.Cleanup(func() { u.Close() })
			go serveUDP(u, name)
		}
		return nil
	})
}

func serveTCP(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			for s := bufio.NewScanner(c); s.Scan(); {
				fmt.Fprintf(c, "%s %s\n", name, host)
			}
		}()
	}
}

func serveUDP(u net.PacketConn, name string) {
	buf := make([]byte, 100)
	for {
		_, from, err := u.ReadFrom(buf)
		if err != nil {
			return
		}
		host, _, _ := net.SplitHostPort(from.String())
		fmt.Fprint(writerTo{u, from}, name+" "+host+"\n")
	}
}

type writerTo struct {
	net.PacketConn
	to net.Addr
}

func (w writerTo) Write(b []byte) (int, error) { return w.WriteTo(b, w.to) }

const patience = 700 * time.Millisecond

// dial opens a connection from the namespace; the caller closes it.
func (w *world) dial(where, proto, addr string) (net.Conn, error) {
	var c net.Conn
	err := platform.InNetns(w.path(where), func() (err error) {
		c, err = net.DialTimeout(proto+"4", addr, patience)
		return err
	})
	return c, err
}

// ask sends one line and returns the answer.
func ask(c net.Conn) (string, error) {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

// get asks once over a new connection. The answer is "<server> <address that it saw>", "refused" or "timeout".
func (w *world) get(where, proto, addr string) string {
	c, err := w.dial(where, proto, addr)
	if err == nil {
		defer c.Close()
		var answer string
		if answer, err = ask(c); err == nil {
			return answer
		}
	}
	return outcome(err)
}

// outcome is the word for a failure.
func outcome(err error) string {
	if strings.Contains(err.Error(), syscall.ECONNREFUSED.Error()) {
		return "refused"
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return "timeout"
	}
	return err.Error()
}

// expect asks over TCP and UDP.
func (w *world) expect(where, addr, want string) {
	w.t.Helper()
	for _, proto := range []string{"tcp", "udp"} {
		if got := patiently(want, func() string { return w.get(where, proto, addr) }); got != want {
			w.t.Errorf("%s from %s to %s: got %q, want %q", proto, where, addr, got, want)
		}
	}
}

// patiently asks, and once more where a timeout is not wanted: an address that is not resolved at once is asked for
// again after a second (net.ipv6.neigh.default.retrans_time_ms, in milliseconds), and so is a lost SYN, both later
// than patience.
func patiently(want string, get func() string) string {
	got := get()
	if got == "timeout" && got != want {
		got = get()
	}
	return got
}

func prefixList(s ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
