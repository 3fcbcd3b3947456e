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

// Serve calls serve for each connection, in a goroutine of its own, until ctx ends. It closes the listener then, ends
// the context of the calls, and returns nil when all calls have returned. In this order, since a client whose
// connection ends asks again at once: it is refused, waits for the next daemon, and loses no call. A listener that
// somebody else closed is an error.
func Serve(ctx context.Context, listener net.Listener, serve func(context.Context, net.Conn)) error {
	return ServeAtMost(ctx, listener, math.MaxInt32, serve)
}

// ServeAtMost is Serve with at most limit calls at once. Further connections wait in the listener's queue in the
// kernel.
func ServeAtMost(ctx context.Context, listener net.Listener, limit int, serve func(context.Context, net.Conn)) error {
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	// Whoever comes second waits until the address is closed: a second Close of a listener returns at once.
	finish := sync.OnceFunc(func() { listener.Close(); end() })
	var calls sync.WaitGroup
	defer calls.Wait()
	defer finish() // stop may come before what it stops has begun
	stop := context.AfterFunc(ctx, finish)
	defer stop()

	slots := make(chan struct{}, limit) // taken by calls, and by the connection that is waited for

	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil { // its client waits for an answer, and is to ask the next daemon
				finish()
				conn.Close()
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
			serve(own, conn)
		})
	}
}
