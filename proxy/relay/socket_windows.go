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

// receiver reads datagrams of one connected socket with a buffer that it holds only while there is something to read.
type receiver struct {
	conn *net.UDPConn
	raw  syscall.RawConn
}

func newReceiver(c *net.UDPConn) (receiver, error) {
	raw, err := c.SyscallConn()
	return receiver{c, raw}, err
}

// next waits for a datagram and hands it to use, which must not keep it.
func (r receiver) next(use func([]byte)) error {
	if err := readable(r.raw); err != nil {
		return err
	}
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	n, err := r.conn.Read(buf[:])
	if err == nil {
		use(buf[:n])
	}
	return err
}

// enlarge gives a listening UDP socket room for a burst.
func enlarge(c *net.UDPConn, size int) {
	_ = c.SetReadBuffer(size) // the default works, for smaller bursts
}
