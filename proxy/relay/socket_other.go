//go:build !linux && !windows

package relay

import (
	"errors"
	"net"
	"syscall"
)

func stream(to, from *net.TCPConn) (moved int64, err error) { return pooledCopy(to, from, nil) }

func portTaken(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// receiver reads datagrams of one connected socket.
type receiver struct {
	conn *net.UDPConn
}

func newReceiver(c *net.UDPConn) (receiver, error) { return receiver{c}, nil }

// next waits for a datagram and hands it to use, which must not keep it.
func (r receiver) next(use func([]byte)) error {
	buf := make([]byte, 64<<10)
	n, err := r.conn.Read(buf)
	if err == nil {
		use(buf[:n])
	}
	return err
}

func enlarge(c *net.UDPConn, size int) { _ = c.SetReadBuffer(size) }
