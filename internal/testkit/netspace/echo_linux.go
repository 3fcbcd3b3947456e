package netspace

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// End is one end of a UDP connection between namespaces.
type End struct {
	Netns string // path, as Space.Path
	Addr  string // IP address that the namespace has
}

// Echo returns a UDP connection between two ends. What the far end receives it sends back, until the test ends. The
// caller closes the connection.
func Echo(t testing.TB, from, to End) (net.Conn, error) {
	var far *net.UDPConn
	err := platform.InNetns(to.Netns, func() (err error) {
		far, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(to.Addr)})
		return err
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { far.Close() })
	go sendBack(far)

	var near net.Conn
	err = platform.InNetns(from.Netns, func() (err error) {
		near, err = net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from.Addr)}, far.LocalAddr().(*net.UDPAddr))
		return err
	})
	return near, err
}

// sendBack ends when the socket is closed.
func sendBack(c *net.UDPConn) {
	buf := make([]byte, 64<<10)
	for {
		n, peer, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(buf[:n], peer) // who waits for it notices
	}
}

// Exchange sends one datagram of size bytes, and waits up to two seconds until it comes back.
func Exchange(t testing.TB, from, to End, size int) error {
	c, err := Echo(t, from, to)
	if err != nil {
		return err
	}
	defer c.Close()

	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write(make([]byte, size)); err != nil {
		return err
	}
	if n, err := io.ReadAtLeast(c, make([]byte, size), size); err != nil {
		return fmt.Errorf("%d of %d bytes came back: %w", n, size, err)
	}
	return nil
}
