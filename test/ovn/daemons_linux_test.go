package ovn

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/ovsdb"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
)

// exit asks a node's ovn-controller to end, and waits until it has.
func (w faultWorld) exit(n *node, flags ...string) {
	w.t.Helper()
	wait.NoError(w.t, 10*time.Second, "ovn-controller to end", func() error {
		out, err := exec.CommandContext(w.t.Context(), "ovs-appctl",
			append([]string{"-t", w.controlSocket(n), "exit"}, flags...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	<-w.daemons[n.name+"/ovn-controller"].ended
}

// problem waits until the agent of a node reports one problem with all the words; without words, none.
func (w faultWorld) problem(name string, words ...string) {
	w.t.Helper()
	n := w.nodes[name]
	wait.NoError(w.t, 60*time.Second, "problems of "+name, func() error {
		n.space.Do(func() error { n.agent.Sync(w.t.Context()); return nil })
		got := n.agent.Status().Problems
		missing := len(got) != min(1, len(words))
		for _, word := range words {
			missing = missing || !strings.Contains(strings.Join(got, "; "), word)
		}
		if missing {
			return fmt.Errorf("problems %q, want %q", got, words)
		}
		return nil
	})
}

// TestDaemons ends each of OVN's programs in the ways that take something away, and deletes what they made.
func TestDaemons(t *testing.T) {
	long(t)
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	n1, n2 := w.nodes["n1"], w.nodes["n2"]

	// Asked to exit, ovn-controller takes chassis, tunnels and flows with it: both nodes say so.
	w.exit(n1)
	for _, n := range []*node{n1, n2} {
		wait.NoError(t, 20*time.Second, "the missing tunnel of "+n.name, func() error {
			w.syncAll()
			for _, r := range n.agent.Status().Routes {
				if r.State == "waiting" && strings.Contains(r.Reason, "does ovn-controller run there") {
					return nil
				}
			}
			return fmt.Errorf("%+v", n.agent.Status())
		})
	}
	if answer, err := send(a.space, "udp", netip.AddrPortFrom(c.addr, 8080).String(), 100, time.Second); err == nil {
		t.Errorf("packets pass without ovn-controller's flows: %s", answer)
	}
	began := time.Now()
	w.restart("n1/ovn-controller")
	w.sync()
	w.reach(a.space, c.addr, 8080, "c")
	t.Logf("packets pass %v after the start of an ovn-controller that was asked to exit",
		time.Since(began).Round(10*time.Millisecond))

	// A chassis that somebody deletes while the node lives comes back by itself.
	sb, err := ovsdb.Dial(t.Context(), "unix:"+w.central.SB())
	w.must(err)
	defer sb.Close()
	_, err = sb.Transact(t.Context(), "OVN_Southbound", ovsdb.Delete("Chassis", ovsdb.Equal("name", "n1")),
		ovsdb.Delete("Chassis_Private", ovsdb.Equal("name", "n1")))
	w.must(err)
	wait.NoError(t, 20*time.Second, "the chassis", func() error {
		if got := strings.Join(w.chassis(), " "); got != "n1 n2" {
			return errors.New(got)
		}
		return nil
	})
	w.sync()
	w.reach(a.space, c.addr, 8080, "c")

	// Without ovn-northd packets pass, and a pod waits for it.
	packets := map[string]*stream{"to a pod": w.stream(a.space, netip.AddrPortFrom(c.addr, 8080))}
	w.kill("master/ovn-northd")
	late := w.tryPod("late", "n1")
	added := make(chan error, 1)
	go func() { added <- second(w.cni("ADD", late)) }()
	w.enough(packets)
	w.restart("master/ovn-northd")
	if err := <-added; err != nil {
		w.must(second(w.cni("ADD", late)))
	}
	w.nothingLost("ovn-northd away", packets)
	w.must(second(w.cni("DEL", late)))
	w.api.remove(late.Pod)

	// ovn-controller makes a deleted br-int again, the agent the node's own port; the ports of pods are gone, and
	// named.
	w.vsctl(n1, "del-br", "br-int")
	w.sync()
	w.reach(n1.space, c.addr, 8080, "c")
	w.problem("n1", "interfaces of pods on node n1 are not ports of br-int any more")
	w.must(second(w.cni("DEL", a)))
	w.problem("n1")
}

// setMTU sets the MTU of the cards of all nodes.
func (w faultWorld) setMTU(mtu int) {
	w.t.Helper()
	for name, n := range w.nodes {
		n.space.Do(func() error { return platform.ConfigureLink("eth0", "", mtu) })
		w.rack.Do(func() error { return platform.ConfigureLink(name, "", mtu) })
	}
}

// whole sends a UDP packet of that size with its headers, which must not be cut, and waits for the answer.
func whole(from *netspace.Space, to netip.AddrPort, size int) (answer string, err error) {
	const headers = 20 + 8
	from.Do(func() error {
		fd, e := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err = e; err != nil {
			return nil
		}
		defer unix.Close(fd)
		address := unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}),
			unix.Sendto(fd, make([]byte, size-headers), 0, &address))
		if err != nil {
			return nil
		}
		buffer := make([]byte, 2048)
		n, _, e := unix.Recvfrom(fd, buffer, 0)
		answer, err = string(buffer[:max(n, 0)]), e
		return nil
	})
	return answer, err
}

// limit expects packets of that size to pass from one pod to another, and larger ones to be refused with the reason.
func (w faultWorld) limit(from, to *pod, size int) {
	w.t.Helper()
	at := netip.AddrPortFrom(to.addr, 8080)
	wait.NoError(w.t, 20*time.Second, fmt.Sprintf("a packet of %d bytes", size), func() error {
		_, err := whole(from.space, at, size)
		return err
	})
	if _, err := whole(from.space, at, size+1); !errors.Is(err, syscall.EMSGSIZE) {
		w.t.Errorf("a packet of %d bytes: %v, want that it is too large", size+1, err)
	}
}

// TestUnderlayMTU: the MTU of pods and of the node's own port follows that of the network between the nodes. Pods that
// were made before it became smaller are named.
func TestUnderlayMTU(t *testing.T) {
	long(t)
	w := faultWorld{newWorld(t)}
	a, c := w.pair()
	n1 := w.nodes["n1"]
	w.limit(a, c, 1442)

	w.setMTU(1400)
	for _, n := range []string{"n1", "n2"} {
		w.problem(n, "at most 1342 bytes", "MTU of 1400", "delete these pods")
	}
	if own := w.in(n1, "ip", "-o", "link", "show", "k8s-n1"); !strings.Contains(own, "mtu 1342 ") {
		t.Errorf("the node's own port: %s", own)
	}
	b, d := w.addPod("b", "n1"), w.addPod("d", "n2")
	w.listen(b.space, "b", b.addr)
	w.listen(d.space, "d", d.addr)
	w.limit(b, d, 1342)
	w.reach(b.space, d.addr, 8080, "d")
	w.reach(n1.space, d.addr, 8080, "d")
	for _, p := range []*pod{a, c} {
		w.must(second(w.cni("DEL", p)))
		w.api.remove(p.Pod)
	}
	w.problem("n1")
	w.problem("n2")
	w.sync()
	w.setMTU(1500)
	wait.True(t, 20*time.Second, "the MTU of before", func() bool {
		w.syncAll()
		return n1.mode.MTU() == 1442 && w.nodes["n2"].mode.MTU() == 1442
	})
	e, f := w.addPod("e", "n1"), w.addPod("f", "n2")
	w.listen(f.space, "f", f.addr)
	w.limit(e, f, 1442)
}
