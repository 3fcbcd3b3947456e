package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/firewall"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
)

const (
	// markers is how many requests are handled at once.
	markers = 16
	// lingerLimit is how long hnsd lets a close block.
	lingerLimit = 100 * time.Millisecond
	// markingEnds is how long the end of hnsd waits for the requests that it handles.
	markingEnds = time.Second
)

// listenForMarks listens at wire.MarkSocket in the caller's network namespace. The caller closes the listener.
func listenForMarks() (net.Listener, error) { return net.Listen("unixpacket", "@"+wire.MarkSocket) }

// startMarking handles requests in a network namespace until stop is called. If another process listens at the
// address, hnsd runs without marking, and logs an error.
func startMarking(ctx context.Context, netns string) (stop func()) {
	log := klog.FromContext(ctx)
	var listener net.Listener
	err := platform.InNetns(netns, func() (err error) {
		listener, err = listenForMarks()
		return err
	})
	if err != nil {
		log.Error(err, "Rules of the firewall for programs let nothing in: their sockets cannot be marked")
		return func() {}
	}

	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		serveMarks(ctx, listener)
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(markingEnds):
		}
	}
}

// serveMarks sets marks on sockets for the host's programs, which have no right to, until ctx ends. It closes the
// listener. A program may give the mark of another one: the firewall does not separate the programs of a host from
// each other.
func serveMarks(ctx context.Context, listener net.Listener) {
	log := klog.FromContext(ctx)
	err := daemon.ServeAtMost(ctx, listener, markers, func(_ context.Context, conn net.Conn) {
		if err := serveMark(conn.(*net.UnixConn)); err != nil {
			log.V(2).Info("A socket was not marked", "cause", err.Error())
		}
		unhindered(func() { conn.Close() }) // it may hold sockets that were sent and not read
	})
	if err != nil {
		log.Error(err, "Marking sockets of programs")
	}
}

// serveMark handles one request: it reads a mark and a socket, sets the mark, closes its copy of the socket, and then
// answers with one byte.
func serveMark(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(wire.MarkMillis * time.Millisecond)); err != nil {
		return err
	}
	mark := make([]byte, 4)
	// With its padding this has room for two descriptors; the kernel closes others.
	control := make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := conn.ReadMsgUnix(mark, control)
	// Descriptors may come with an error too: Go reports a message without data as io.EOF.
	sockets, malformed := descriptors(control[:size])

	if err = errors.Join(err, malformed); err == nil && (n != len(mark) || len(sockets) != 1) {
		err = fmt.Errorf("a request of %d bytes and %d sockets", n, len(sockets))
	}
	if err == nil {
		err = setMark(sockets[0], binary.LittleEndian.Uint32(mark))
	}
	unhindered(func() {
		for _, fd := range sockets {
			_ = unix.Close(fd) // what it had to send is the program's concern
		}
	})
	if err == nil {
		_, err = conn.Write([]byte{0})
	}
	return err
}

// descriptors returns all descriptors in control messages. The caller closes them.
func descriptors(control []byte) (all []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	for i := range messages {
		list, malformed := unix.ParseUnixRights(&messages[i])
		all = append(all, list...)
		err = errors.Join(err, malformed)
	}
	return all, err
}

// unhindered runs a function that closes sockets which came from a program. A close blocks as long as the program has
// set with SO_LINGER (socket(7)), up to days. After lingerLimit SIGURG interrupts it, a signal that Go's runtime
// sends to its threads too. The descriptor is closed all the same.
func unhindered(closes func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(lingerLimit)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // the thread is this process' own
			}
		}
	}()
	closes()
}

// setMark sets the mark of a program on a socket of IPv4 or IPv6. Other marks are the data plane's and are refused.
func setMark(socket int, mark uint32) error {
	if !firewall.IsMark(mark) {
		return fmt.Errorf("%#x is no program's mark", mark)
	}
	domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	if domain != unix.AF_INET && domain != unix.AF_INET6 {
		return fmt.Errorf("a socket of family %d", domain)
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
		return fmt.Errorf("marking a socket: %w", err)
	}
	return nil
}
