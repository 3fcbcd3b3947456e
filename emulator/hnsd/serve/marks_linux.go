package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/firewall"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
)

const (
	// markers is how many programs are served at once. The others wait in the kernel, where they cost hnsd nothing.
	markers = 16
	// lingerLimit is how long the close of a socket may take: a program can have it wait for days (SO_LINGER in socket(7)).
	lingerLimit = 100 * time.Millisecond
	// markingEnds is how long the end is waited for: what programs have sent and nobody has accepted may linger too.
	markingEnds = time.Second
	// acceptPause is the wait after a connection that could not be accepted, as while the process has no free descriptor.
	acceptPause = 50 * time.Millisecond
)

// listenForMarks listens at wire.MarkSocket in the caller's network namespace. The caller closes the listener.
func listenForMarks() (net.Listener, error) { return net.Listen("unixpacket", "@"+wire.MarkSocket) }

// startMarking serves marks in a network namespace until stop is called. If somebody else listens there, HNS works without, and the log says so.
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

// serveMarks marks sockets for programs of the host, which may not do that themselves, until ctx ends. It closes the listener. A program can
// claim to be another one: the firewall is no boundary between the programs of a host.
func serveMarks(ctx context.Context, listener net.Listener) {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	log := klog.FromContext(ctx)
	var serving sync.WaitGroup
	for range markers {
		serving.Go(func() {
			for ctx.Err() == nil {
				conn, err := listener.Accept()
				if err != nil {
					wakeup.Pause(ctx, acceptPause)
					continue
				}
				if err := serveMark(conn.(*net.UnixConn)); err != nil {
					log.V(2).Info("A socket was not marked", "cause", err.Error())
				}
				unhindered(func() { conn.Close() }) // with what came and was not read
			}
		})
	}
	serving.Wait()
}

// serveMark reads one mark and one socket from a program, and answers with a byte when the socket is marked. Then hnsd has it no more.
func serveMark(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(wire.MarkMillis * time.Millisecond)); err != nil {
		return err
	}
	mark := make([]byte, 4)
	control := make([]byte, unix.CmsgSpace(4)) // it has room for a second descriptor, and the kernel closes others
	n, size, _, _, err := conn.ReadMsgUnix(mark, control)
	sockets, malformed := descriptors(control[:size]) // they are there in spite of an error, which a message of no bytes is to Go

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
		all, err = append(all, list...), errors.Join(err, malformed)
	}
	return all, err
}

// unhindered runs a function that closes what a program has given, on this thread. A close that waits is interrupted by the signal with which Go
// interrupts its own threads; what is closed is closed all the same.
func unhindered(closes func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, done := unix.Gettid(), make(chan struct{})
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

// setMark marks a socket of IP. Marks that are no program's belong to the data plane.
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
