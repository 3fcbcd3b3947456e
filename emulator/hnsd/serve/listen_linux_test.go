package serve

import (
	"net"
	"net/netip"
	"testing"
)

// TestListensIn asks for sockets of this process.
func TestListensIn(t *testing.T) {
	listens := listensIn("")
	local, any := netip.MustParseAddr("127.0.0.1"), netip.Addr{}
	node := netip.MustParseAddr("192.0.2.1")
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	everywhere, err := net.Listen("tcp", ":0") // both families
	must(t, err)
	defer everywhere.Close()
	udp, err := net.ListenPacket("udp4", "0.0.0.0:0")
	must(t, err)
	defer udp.Close()
	port := func(a net.Addr) uint16 { return netip.MustParseAddrPort(a.String()).Port() }
	for _, c := range []struct {
		what     string
		protocol uint8
		addr     netip.Addr
		port     uint16
		want     bool
	}{
		{"the address of the socket", 6, local, port(tcp.Addr()), true},
		{"the host's addresses without loopback", 6, any, port(tcp.Addr()), false},
		{"another address", 6, node, port(tcp.Addr()), false},
		{"another protocol", 17, local, port(tcp.Addr()), false},
		{"a socket for all addresses and families", 6, node, port(everywhere.Addr()), true},
		{"a socket for all addresses, any of the host's", 6, any, port(everywhere.Addr()), true},
		{"UDP", 17, any, port(udp.LocalAddr()), true},
		{"no port", 6, any, 0, false},
	} {
		if got := listens(c.protocol, c.addr, c.port); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}

	tcp.Close()
	if listens(6, local, port(tcp.Addr())) {
		t.Error("a closed socket listens")
	}
}
