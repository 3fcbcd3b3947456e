package relay

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/windows"
)

// stream copies one direction. Windows has no splice between sockets.
func stream(to, from *net.TCPConn) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	return pooledCopy(to, from, func() error { return readable(raw) })
}

// readable waits until a read would not block, with a read of no bytes underneath (internal/poll, FD.RawRead of Go 1.26).
func readable(raw syscall.RawConn) error {
	asked := false
	return raw.Read(func(uintptr) bool {
		defer func() { asked = true }()
		return asked
	})
}

// portTaken: a port within a range that Windows excludes (Hyper-V, WinNAT) is refused with WSAEACCES.
func portTaken(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES)
}

// receiver reads datagrams of one connected socket. It holds its buffer all the time: waiting without one needs a peek of
// no bytes, after which Wine 8.0 delivers nothing. Of a new buffer Windows backs only what datagrams have filled.
type receiver struct {
	conn *net.UDPConn
	buf  []byte
}

func newReceiver(c *net.UDPConn) (receiver, error) { return receiver{c, make([]byte, 64<<10)}, nil }

// next waits for a datagram and hands it to use, which must not keep it.
func (r receiver) next(use func([]byte)) error {
	n, err := r.conn.Read(r.buf)
	if err == nil {
		use(r.buf[:n])
	}
	return err
}

// enlarge gives a listening UDP socket room for a burst.
func enlarge(c *net.UDPConn, size int) {
	_ = c.SetReadBuffer(size) // the default works, for smaller bursts
}
