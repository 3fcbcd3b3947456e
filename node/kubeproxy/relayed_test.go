package kubeproxy

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// TestMixedPorts: backends on different ports answer through one port, which is the same after a restart.
func TestMixedPorts(t *testing.T) {
	var backends []netip.AddrPort
	for i := range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		backends = append(backends, netip.MustParseAddrPort(l.Addr().String()))
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(conn, i)
				_ = conn.Close()
			}
		}()
	}

	key := service.Key{VIP: netip.MustParseAddr("10.96.0.10"), Protocol: hns.TCP, Port: 80}
	at := netip.MustParseAddr("127.0.0.1")
	var ports []uint16
	for range 2 {
		m := newMixedPorts()
		port, err := m.Ensure(key, at, backends, 0)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
		seen := map[string]bool{}
		for range 8 {
			conn, err := net.Dial("tcp", netip.AddrPortFrom(at, port).String())
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(conn)
			seen[string(said)] = true
			_ = conn.Close()
		}
		if !seen["0"] || !seen["1"] {
			t.Errorf("answers: %v", seen)
		}
		if again, err := m.Ensure(key, at, backends[:1], 0); err != nil || again != port {
			t.Errorf("port %d, %v", again, err)
		}
		if _, err := m.Ensure(service.Key{Protocol: hns.UDP, Port: 53}, netip.MustParseAddr("192.0.2.99"), backends,
			0); err == nil {
			t.Error("it listens at an address that this host has not")
		}
		m.Release(key)
		if conn, err := net.Dial("tcp", netip.AddrPortFrom(at, port).String()); err == nil {
			_ = conn.Close()
			t.Error("it listens after the end")
		}
		m.relay.Close()
	}

	if ports[0] != ports[1] {
		t.Errorf("ports %v", ports)
	}
}
