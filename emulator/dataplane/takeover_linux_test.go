package dataplane

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/dataplane/hoststack"
	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// While a network card is away the rules go on with its addresses, and it gets back what it should. Connections of the
// host are aborted, those of pods are not.
func TestTakeDown(t *testing.T) {
	for _, loses := range []bool{false, true} {
		w := newWorld(t)
		pod := w.a.pod(11)
		w.a.apply()
		w.serve("out", "out", 80)
		before := w.hostStack("a")
		add := func(dst string, protocol int) {
			w.in("a", func() error {
				return netlink.RouteAdd(&netlink.Route{Dst: platform.IPNet(netip.MustParsePrefix(dst)),
					Gw: net.ParseIP("10.99.0.9"), Protocol: netlink.RouteProtocol(protocol)})
			})
		}
		add("192.168.1.0/24", hoststack.RouteProtocol) // a program's
		if loses {
			w.in("a", func() error { return netlink.RouteDel(&netlink.Route{Dst: platform.IPNet(w.b.pods)}) })
			before =
				"10.99.0.21/24 on eth0\n0.0.0.0/0 via 10.99.0.1 on eth0 metric 0\n10.99.0.0/24 via <nil> on eth0 metric 0\n"
			add("192.168.2.0/24", 3) // the administrator's
		}

		conn, kept := w.connected("a", outside+":81"), w.connected(pod, outside+":82")
		link, err := w.a.dp.handle.LinkByName("eth0")
		must(t, err)
		var saved hoststack.Card
		_, err = w.a.dp.TakeDown(link.Attrs().Index, loses, func(s hoststack.Card) error { saved = s; return nil })
		must(t, err)
		if have := w.hostStack("a"); have != "" {
			t.Errorf("while the card is away: %s", have)
		}
		w.expect("out", "10.99.0.21:80", "timeout")
		for c, want := range map[net.Conn]error{conn: unix.ECONNABORTED, kept: os.ErrDeadlineExceeded} {
			must(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
				t.Errorf("connection of %s: %v, want %v", c.LocalAddr(), err, want)
			}
		}
		w.a.desired.LoadBalancers = []desired.LoadBalancer{lb("web", "10.96.0.1", 80, 80, true, w.a.epID(11))}
		w.a.carry() // no rule changes because the address is away

		must(t, w.a.dp.PutBack(saved))
		must(t, w.a.dp.PutBack(saved))
		if have := w.hostStack("a"); have != before {
			t.Errorf("loses persistent routes %v: the host has\n%swant\n%s", loses, have, before)
		}
		w.a.carry()
		// a link that has just come up can lose a packet
		wait.NoError(t, 5*time.Second, "the pod to reach the outside", func() error {
			if got := w.get(pod, "tcp", outside+":80"); got != "out 10.99.0.21" {
				return errors.New(got)
			}
			return nil
		})
	}
}

// connected returns a connection to a server outside that never says anything.
func (w *world) connected(from, addr string) (conn net.Conn) {
	w.t.Helper()
	w.in("out", func() error {
		l, err := net.Listen("tcp4", addr)
		w.t.Cleanup(func() { l.Close() })
		return err
	})
	w.in(from, func() (err error) {
		conn, err = net.Dial("tcp4", addr)
		w.t.Cleanup(func() { conn.Close() })
		return err
	})
	return conn
}
