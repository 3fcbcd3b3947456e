package relay

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// stream copies one direction. The kernel moves the bytes (splice).
func stream(to, from *net.TCPConn) (moved int64, err error) { return io.Copy(to, from) }

func portTaken(err error) bool { return errors.Is(err, unix.EADDRINUSE) }

// receiver reads datagrams of one connected socket. It has a buffer only while there is something to read.
type receiver struct {
	raw syscall.RawConn
}

func newReceiver(c *net.UDPConn) (receiver, error) {
	raw, err := c.SyscallConn()
	return receiver{raw}, err
}

// next waits for a datagram and hands it to use, which must not keep it.
func (r receiver) next(use func([]byte)) error {
	var failed error
	err := r.raw.Read(func(fd uintptr) bool {
		buf := buffers.Get().(*[64 << 10]byte)
		defer buffers.Put(buf)
		n, err := unix.Read(int(fd), buf[:])
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			return false
		case err != nil:
			failed = err
		default:
			use(buf[:n])
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}

// enlarge gives a listening UDP socket a larger receive buffer, beyond the system's limit if the process may.
func enlarge(c *net.UDPConn, size int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	forced := false
	_ = raw.Control(func(fd uintptr) {
		forced = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) == nil
	})
	if !forced {
		_ = c.SetReadBuffer(size) // as much as the system allows
	}
}
