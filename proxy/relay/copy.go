package relay

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Buffers for TCP and UDP: 64 KiB is the largest datagram, and more per call makes TCP no quicker.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// pooledCopy copies from one connection to the other until the first ends. The buffer is given back while there is
// nothing to read: wait returns when there is. A nil wait keeps it all the time.
func pooledCopy(to, from *net.TCPConn, wait func() error) error {
	for {
		if wait != nil {
			if err := wait(); err != nil {
				return ended(err)
			}
		}
		if more, err := copyWhileFull(to, from, wait != nil); !more || err != nil {
			return err
		}
	}
}

// copyWhileFull copies until a read did not fill the buffer: then there is probably nothing more for now. more is false
// at the end of the stream.
func copyWhileFull(to, from *net.TCPConn, pause bool) (more bool, err error) {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(buf[:])
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return false, err
			}
		}
		if err != nil {
			return false, ended(err)
		}
		if pause && n < len(buf) {
			return true, nil
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
