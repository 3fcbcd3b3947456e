package serve

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"slices"
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
	t.Cleanup(startMarking(t.Context(), netns))

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
		for name, control := range map[string][]byte{"no descriptor": nil, "a file": unix.UnixRights(fd)} {
			if askForMark(t, message, control) {
				t.Errorf("%s: answered", name)
			}
		}
		return nil
	}))
}

// askForMark sends a request and reports whether hnsd answered. Otherwise hnsd has closed the connection.
func askForMark(t *testing.T, message, control []byte) bool {
	t.Helper()
	conn := sendForMark(t, message, control)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	n, err := conn.Read(make([]byte, 1))
	if os.IsTimeout(err) {
		t.Error("neither an answer nor the end")
	}
	return n == 1
}

func sendForMark(t *testing.T, message, control []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("unixpacket", "@"+wire.MarkSocket)
	must(t, err)
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix(message, control, nil)
	must(t, err)
	return conn
}

// TestHostileMarks: what programs send takes neither descriptors nor time of hnsd, and does not hold up its end.
func TestHostileMarks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("marks of sockets need root")
	}
	must(t, platform.InNetns(netspace.New(t, "marks").Path, func() error {
		listener, err := listenForMarks()
		must(t, err)
		message := binary.LittleEndian.AppendUint32(nil, firewall.Mark(`C:\k\kubelet.exe`))
		for range 2 * markers {
			lingering := lingeringSocket(t)
			conn := sendForMark(t, message, unix.UnixRights(lingering))
			defer conn.Close()
			must(t, unix.Close(lingering)) // hnsd's will be the last
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			serveMarks(ctx, listener)
		}()

		port := 0
		for _, c := range []struct {
			name   string
			copies []int // of the socket, in each control message
		}{{"two", []int{2}}, {"three", []int{3}}, {"two messages", []int{1, 1}}, {"one", []int{1}}} {
			socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			if err := unix.Bind(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
				t.Errorf("before %s: hnsd has kept the socket of a request: %v", c.name, err)
			}
			at, err := unix.Getsockname(socket)
			must(t, err)
			port = at.(*unix.SockaddrInet4).Port

			var control []byte
			for _, n := range c.copies {
				control = append(control, unix.UnixRights(slices.Repeat([]int{socket}, n)...)...)
			}
			if answered := askForMark(t, message, control); answered != (c.name == "one") {
				t.Errorf("%s: answered %t", c.name, answered)
			}
			must(t, unix.Close(socket))
		}

		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("it does not end")
		}
		return nil
	}))
}

// lingeringSocket returns a TCP socket with unsent data and a long SO_LINGER: whoever closes its last descriptor
// blocks for days.
func lingeringSocket(t *testing.T) int {
	t.Helper()
	peer, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { peer.Close() })
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	port := peer.Addr().(*net.TCPAddr).Port
	must(t, unix.Connect(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
	must(t, unix.SetNonblock(socket, true))
	for err == nil { // until the peer, which does not read, takes no more
		_, err = unix.Write(socket, make([]byte, 1<<20))
	}
	must(t, unix.SetsockoptLinger(socket, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1_000_000}))
	return socket
}
