package serve

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fullListener is a listener of a process without a free file descriptor. It is closed after 1,000 calls.
type fullListener struct{ calls int }

func (l *fullListener) Accept() (net.Conn, error) {
	if l.calls++; l.calls > 1000 {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

func (*fullListener) Close() error   { return nil }
func (*fullListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestAcceptWithoutFiles: the daemon waits between attempts and does not use a processor up, and it ends with its context.
func TestAcceptWithoutFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &fullListener{}
		if err := (&Service{}).accept(ctx, l); err != nil || l.calls > 30 {
			t.Errorf("%d attempts in a second: %v", l.calls, err)
		}
	})
}
