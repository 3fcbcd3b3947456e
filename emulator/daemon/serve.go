package daemon

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
)

// acceptPause is the wait after a connection that could not be accepted, which happens while the process has no free
// file descriptor.
const acceptPause = 50 * time.Millisecond

// Serve calls serve for each connection, in a goroutine of its own, until ctx ends. It closes the listener then, and
// returns nil when all calls have returned. A listener that somebody else closed is an error.
func Serve(ctx context.Context, listener net.Listener, serve func(net.Conn)) error {
	return ServeAtMost(ctx, listener, math.MaxInt32, serve)
}

// ServeAtMost is Serve with at most limit calls at once. Further connections wait in the listener's queue in the
// kernel.
func ServeAtMost(ctx context.Context, listener net.Listener, limit int, serve func(net.Conn)) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, limit) // taken by calls, and by the connection that is waited for

	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close() // otherwise its client would wait for an answer, and not ask the next daemon
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Accepting a connection")
			<-slots
			if !wakeup.Pause(ctx, acceptPause) {
				return nil
			}
			continue
		}
		calls.Go(func() {
			defer func() { <-slots }()
			serve(conn)
		})
	}
}
