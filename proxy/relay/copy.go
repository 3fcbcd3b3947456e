package relay

import (
	"errors"
	"io"
	"net"
	"sync"
)

// buffers for TCP and UDP. 64 KiB is the largest datagram, and a larger buffer does not make TCP faster.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// pooledCopy copies from one connection to the other until from ends. wait returns when there is something to read;
// until then the buffer is back in the pool. With a nil wait it is kept all the time.
func pooledCopy(to, from *net.TCPConn, wait func() error) (moved int64, err error) {
	for {
		if wait != nil {
			if err := wait(); err != nil {
				return moved, ended(err)
			}
		}
		n, more, err := copyWhileFull(to, from, wait != nil)
		if moved += n; !more || err != nil {
			return moved, err
		}
	}
}

// copyWhileFull copies, with pause until a read does not fill the buffer: then there is probably nothing more for now.
// more is false at the end of the stream.
func copyWhileFull(to, from *net.TCPConn, pause bool) (moved int64, more bool, err error) {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(buf[:])
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return moved, false, err
			}
			moved += int64(n)
		}
		if err != nil {
			return moved, false, ended(err)
		}
		if pause && n < len(buf) {
			return moved, true, nil
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
