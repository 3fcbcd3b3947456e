package ovn

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
)

// listen answers TCP connections and UDP packets to port 8080 of an address in a namespace with a name and the
// client's address.
func (w *world) listen(space *netspace.Space, name string, at netip.Addr) {
	w.t.Helper()
	var listener net.Listener
	var packets net.PacketConn
	space.Do(func() (err error) {
		if listener, err = net.Listen("tcp4", netip.AddrPortFrom(at, 8080).String()); err != nil {
			return err
		}
		packets, err = net.ListenPacket("udp4", netip.AddrPortFrom(at, 8080).String())
		return err
	})

	w.t.Cleanup(func() { listener.Close(); packets.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(10 * time.Second))
				n, _ := io.Copy(io.Discard, conn)
				fmt.Fprintf(conn, "%s got %d bytes from %s", name, n, clientOf(conn.RemoteAddr()))
			}()
		}
	}()
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			packets.WriteTo(fmt.Appendf(nil, "%s got %d bytes from %s", name, n, clientOf(from)), from)
		}
	}()
}

func clientOf(a net.Addr) string {
	h, _, _ := net.SplitHostPort(a.String())
	return h
}

// send sends data from a namespace, and returns the answer.
func send(space *netspace.Space, network, to string, size int, limit time.Duration) (answer string, err error) {
	space.Do(func() error {
		var conn net.Conn
		if conn, err = net.DialTimeout(network, to, limit); err != nil {
			return nil
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(limit))
		if _, err = conn.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			return nil
		}
		if c, ok := conn.(*net.TCPConn); ok {
			c.CloseWrite()
			var data []byte
			data, err = io.ReadAll(conn)
			answer = string(data)
			return nil
		}
		buffer := make([]byte, 2048)
		n, readErr := conn.Read(buffer)
		answer, err = string(buffer[:n]), readErr
		return nil
	})
	return answer, err
}

// reach sends by TCP (1 MB) and UDP, and expects the answer to begin with one of the names. The first packet on a new
// path may be lost while the ends of the tunnel look for each other.
func (w *world) reach(from *netspace.Space, to netip.Addr, port uint16, wants ...string) {
	w.t.Helper()
	for network, size := range map[string]int{"tcp": 1 << 20, "udp": 100} {
		target := netip.AddrPortFrom(to, port).String()
		wait.NoError(w.t, 20*time.Second, network+" to "+target, func() error {
			answer, err := send(from, network, target, size, 3*time.Second)
			if err != nil {
				return err
			}
			for _, want := range wants {
				if strings.HasPrefix(answer, fmt.Sprintf("%s got %d bytes", want, size)) {
					return nil
				}
			}
			return fmt.Errorf("answer %q", answer)
		})
	}
}

// service makes a service with endpoints.
func (w *world) service(name, vip string, port int32, pods ...*pod) {
	w.api.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: vip, Ports: []corev1.ServicePort{
			{Name: "t", Protocol: corev1.ProtocolTCP, Port: port},
			{Name: "u", Protocol: corev1.ProtocolUDP, Port: port}}}})
	t, u, tcp, udp, target := "t", "u", corev1.ProtocolTCP, corev1.ProtocolUDP, int32(8080)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &t, Protocol: &tcp, Port: &target},
			{Name: &u, Protocol: &udp, Port: &target}}}
	for _, p := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{p.addr.String()}})
	}
	w.api.put(slice)
}

// TestPackets sends between pods of two nodes, between pods and nodes, and to services, and looks at the frames
// between the nodes.
// Row 1.48.
func TestPackets(t *testing.T) {
	w := newWorld(t)
	n1, n2 := w.addNode("n1", "10.99.0.11", "10.244.1.0/24"), w.addNode("n2", "10.99.0.12", "10.244.2.0/24")
	w.sync()
	a, b, c := w.addPod("a", "n1"), w.addPod("b", "n1"), w.addPod("c", "n2")
	inside := ovnet.NodeAddr(netip.MustParsePrefix("10.244.2.0/24"))
	w.listen(n1.space, "n1", n1.addr)
	w.listen(n2.space, "n2", n2.addr)
	w.listen(n2.space, "n2", inside)
	for _, p := range []*pod{a, b, c} {
		w.listen(p.space, p.Name, p.addr)
	}
	w.service("web", "10.96.0.20", 80, b, c)
	w.service("self", "10.96.0.21", 80, a)
	w.service("nobody", "10.96.0.22", 80)

	stop := w.capture()
	w.reach(a.space, c.addr, 8080, "c")
	frames := stop()
	between := 0
	for _, f := range frames {
		if f.from == n1.addr && f.to == n2.addr && bytes.Contains(f.inner, a.addr.AsSlice()) &&
			bytes.Contains(f.inner, c.addr.AsSlice()) {
			between++
		}
	}
	if between == 0 {
		t.Errorf("of %d Geneve frames none from %s to %s carries a packet from %s to %s", len(frames), n1.addr, n2.addr,
			a.addr, c.addr)
	}
	t.Logf("%d Geneve frames, %d of them from %s to %s with a packet of %s to %s", len(frames), between, n1.addr,
		n2.addr, a.addr, c.addr)

	w.reach(a.space, b.addr, 8080, "b")
	w.reach(c.space, a.addr, 8080, "a")
	w.reach(a.space, n1.addr, 8080, "n1")
	w.reach(a.space, n2.addr, 8080, "n2")
	w.reach(n1.space, a.addr, 8080, "a")
	w.reach(n1.space, c.addr, 8080, "c")
	w.reach(n1.space, inside, 8080, "n2")

	vip := netip.MustParseAddr("10.96.0.20")
	w.reach(a.space, vip, 80, "b", "c")
	w.reach(n1.space, vip, 80, "b", "c")
	w.reach(a.space, netip.MustParseAddr("10.96.0.21"), 80, "a")
	began := time.Now()
	if answer, err := send(a.space, "tcp", "10.96.0.22:80", 1, 5*time.Second); err == nil ||
		!strings.Contains(err.Error(), "refused") || time.Since(began) > 2*time.Second {
		t.Errorf("a service without pods: %q, %v after %v", answer, err, time.Since(began))
	}
}
