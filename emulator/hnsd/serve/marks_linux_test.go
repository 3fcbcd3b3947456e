package serve

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/firewall"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
)

// TestMarks: sockets of IP get the mark of a program, and nothing else gets any mark.
func TestMarks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("marks of sockets need root")
	}
	netns := netspace.New(t, "marks").Path
	var listener net.Listener
	must(t, platform.InNetns(netns, func() (err error) {
		listener, err = listenForMarks()
		return err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveMarks(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})

	program := firewall.Mark(`C:\k\kubelet.exe`)
	for _, c := range []struct {
		name         string
		domain, kind int
		mark         uint32
		bytes        int
		want         uint32
	}{
		{"TCP", unix.AF_INET, unix.SOCK_STREAM, program, 4, program},
		{"UDP over IPv6", unix.AF_INET6, unix.SOCK_DGRAM, program, 4, program},
		{"a pod's mark", unix.AF_INET, unix.SOCK_STREAM, 0x0af40203, 4, 0},
		{"half a mark", unix.AF_INET, unix.SOCK_STREAM, program, 2, 0},
		{"a socket of files", unix.AF_UNIX, unix.SOCK_STREAM, program, 4, 0},
	} {
		must(t, platform.InNetns(netns, func() error {
			socket, err := unix.Socket(c.domain, c.kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(socket)
			message := binary.LittleEndian.AppendUint32(nil, c.mark)[:c.bytes]
			if answered := askForMark(t, message, unix.UnixRights(socket)); answered != (c.want != 0) {
				t.Errorf("%s: answered %t", c.name, answered)
			}
			got, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_MARK)
			if err != nil || uint32(got) != c.want {
				t.Errorf("%s: mark %#x, %v, want %#x", c.name, uint32(got), err, c.want)
			}
			return nil
		}))
	}

	must(t, platform.InNetns(netns, func() error {
		null, err := os.Open("/dev/null")
		if err != nil {
			return err
		}
		defer null.Close()
		message, fd := binary.LittleEndian.AppendUint32(nil, program), int(null.Fd())
		for name, control := range map[string][]byte{"no descriptor": nil, "a file": unix.UnixRights(fd), "three descriptors": unix.UnixRights(fd, fd, fd)} {
			if askForMark(t, message, control) {
				t.Errorf("%s: answered", name)
			}
		}
		return nil
	}))
}

// askForMark reports whether a request is answered, and not hung up on.
func askForMark(t *testing.T, message, control []byte) bool {
	t.Helper()
	conn, err := net.Dial("unixpacket", "@"+wire.MarkSocket)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix(message, control, nil)
	must(t, err)
	n, err := conn.Read(make([]byte, 1))
	if os.IsTimeout(err) {
		t.Error("neither an answer nor the end")
	}
	return n == 1
}
