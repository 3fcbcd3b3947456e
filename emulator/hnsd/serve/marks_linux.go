package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/daemon"
	"porthole.dev/porthole/emulator/firewall"
	"porthole.dev/porthole/emulator/wire"
)

// markers is how many programs are served at once. Others wait: a program may keep the descriptor's end busy for a while.
const markers = 16

// listenForMarks listens at wire.MarkSocket in the caller's network namespace. The caller closes the listener.
func listenForMarks() (net.Listener, error) { return net.Listen("unixpacket", "@"+wire.MarkSocket) }

// serveMarks marks sockets for programs of the host, which may not do that themselves, until ctx ends. It closes the listener. A program can
// claim to be another one; the firewall is no boundary between the programs of a host.
func serveMarks(ctx context.Context, listener net.Listener) error {
	free := make(chan struct{}, markers)
	return daemon.Serve(ctx, listener, func(conn net.Conn) {
		defer conn.Close()
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		case <-ctx.Done():
			return
		}
		if err := serveMark(conn.(*net.UnixConn)); err != nil {
			klog.FromContext(ctx).V(2).Info("A socket was not marked", "cause", err.Error())
		}
	})
}

// serveMark reads one mark and one socket from a program, and answers with a byte when the socket is marked.
func serveMark(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(wire.MarkMillis * time.Millisecond)); err != nil {
		return err
	}
	mark := make([]byte, 4)
	rights := make([]byte, unix.CmsgSpace(4)) // the kernel closes what is more than one descriptor
	n, size, _, _, err := conn.ReadMsgUnix(mark, rights)
	if err != nil {
		return err
	}
	socket, err := descriptor(rights[:size])
	if err != nil {
		return err
	}
	defer unix.Close(socket)

	if n != len(mark) {
		return fmt.Errorf("a mark of %d bytes", n)
	}
	if err := setMark(socket, binary.LittleEndian.Uint32(mark)); err != nil {
		return err
	}
	_, err = conn.Write([]byte{0})
	return err
}

// descriptor returns the one descriptor in control messages.
func descriptor(control []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	if len(messages) != 1 {
		return 0, errors.New("a request without a socket")
	}
	list, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, errors.New("a request without a socket")
	}
	return list[0], nil
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
