package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/bubble"
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

// TestServeWithoutFiles: the daemon waits between attempts and does not use a processor up, and it ends with its
// context.
func TestServeWithoutFiles(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &fullListener{}
		if err := Serve(ctx, l, func(context.Context, net.Conn) {}); err != nil || l.calls > 30 {
			t.Errorf("%d attempts in a second: %v", l.calls, err)
		}
	})
}

// late is a listener with one connection, which comes when the context has ended.
type late struct {
	net.Listener
	end  context.CancelFunc
	conn net.Conn
}

func (l late) Accept() (net.Conn, error) { l.end(); return l.conn, nil }
func (late) Close() error                { return nil }

// TestServeAtTheEnd: a connection that is accepted while the daemon ends is closed, so that its client asks the next
// daemon.
func TestServeAtTheEnd(t *testing.T) {
	client, conn := net.Pipe()
	ctx, end := context.WithCancel(t.Context())
	if err := Serve(ctx, late{end: end, conn: conn},
		func(context.Context, net.Conn) { t.Error("the connection is served") }); err != nil {
		t.Error(err)
	}
	client.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client reads %v", err)
	}
}

// full is a listener whose first connections cannot be accepted.
type full struct {
	net.Listener
	refuse int
}

func (f *full) Accept() (net.Conn, error) {
	if f.refuse > 0 {
		f.refuse--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

// TestServe: connections that cannot be accepted end nothing, and the end of the context is success.
func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, &full{listener, 3}, func(_ context.Context, conn net.Conn) {
			conn.Close()
			served <- true
		})
	}()

	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-served
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestServeClosed: a listener that somebody else closed is an error, not a reason to go on for ever.
func TestServeClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := Serve(t.Context(), listener, func(context.Context, net.Conn) {}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// endless is a listener that always has a connection.
type endless struct{ accepted int }

func (l *endless) Accept() (net.Conn, error) { l.accepted++; _, conn := net.Pipe(); return conn, nil }
func (*endless) Close() error                { return nil }
func (*endless) Addr() net.Addr              { return &net.TCPAddr{} }

// TestServeAtMost: no connection beyond the limit is accepted, and one that ends makes room for another.
func TestServeAtMost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		l, finish, ended := &endless{}, make(chan struct{}), make(chan error, 1)
		go func() { ended <- ServeAtMost(ctx, l, 2, func(context.Context, net.Conn) { <-finish }) }()
		bubble.Wait()
		if l.accepted != 2 {
			t.Errorf("%d connections are accepted, want 2", l.accepted)
		}
		finish <- struct{}{}
		bubble.Wait()
		if l.accepted != 3 {
			t.Errorf("%d connections are accepted after the end of one, want 3", l.accepted)
		}

		end()
		close(finish)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAddressClosesFirst: a client whose connection ends with the daemon, and that asks again at once, is refused: it
// then knows to wait for the next daemon. One that got through would lose its call.
func TestAddressClosesFirst(t *testing.T) {
	for range 300 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(ctx, l, func(ctx context.Context, conn net.Conn) {
				<-ctx.Done()
				conn.Close()
			})
		}()
		conn, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}

		end()
		_, _ = conn.Read(make([]byte, 1)) // until the daemon closes it, or while it is not accepted yet
		if again, err := net.Dial("tcp4", l.Addr().String()); err == nil {
			again.Close()
			t.Fatal("the address of a daemon that ends took a connection")
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
