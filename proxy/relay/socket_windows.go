package relay

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/windows"
)

// stream copies one direction. Windows has no splice between sockets.
func stream(to, from *net.TCPConn) (moved int64, err error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return 0, err
	}
	return pooledCopy(to, from, func() error { return readable(raw) })
}

// readable waits until a read would not block, with a read of no bytes underneath (internal/poll, FD.RawRead of Go
// 1.26).
func readable(raw syscall.RawConn) error {
	asked := false
	return raw.Read(func(uintptr) bool {
		defer func() { asked = true }()
		return asked
	})
}

// portTaken reports whether the port is in use. In a range that Windows excludes (Hyper-V, WinNAT) it is refused with
// WSAEACCES.
func portTaken(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES)
}

// receiver reads datagrams of one connected socket. It has its buffer all the time: waiting without one needs a peek
// of no bytes, after which Wine 8.0 delivers nothing. Windows gives memory only to the pages of a new buffer that
// datagrams have filled.
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

// enlarge gives a listening UDP socket a larger receive buffer.
func enlarge(c *net.UDPConn, size int) {
	_ = c.SetReadBuffer(size) // with the default only smaller bursts fit
}
