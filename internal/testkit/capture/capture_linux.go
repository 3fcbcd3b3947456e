package capture

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/packet"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Packet is one frame. What it can be asked is in internal/packet.
type Packet = packet.Packet

// Of package packet, for those who look for a kind of packets.
const (
	ICMPv4      = packet.ICMPv4
	ICMPv6      = packet.ICMPv6
	TCP         = packet.TCP
	UDP         = packet.UDP
	EchoRequest = packet.EchoRequest
)

// Wire collects the IP packets that an interface sends and receives. It is safe for concurrent use.
type Wire struct {
	what string
	mu   sync.Mutex
	seen []Packet
	err  error
}

// most bounds what a Wire keeps; later packets are not seen.
const most = 20000

// Start begins to collect in the network namespace at path, until the test ends.
func Start(t testing.TB, path, iface string) *Wire {
	t.Helper()
	fd := -1
	err := platform.InNetns(path, func() (err error) {
		fd, err = open(iface)
		return err
	})
	if err != nil {
		t.Fatalf("capturing on %s of %s: %v", iface, path, err)
	}

	w := &Wire{what: path + " " + iface}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.read(fd, stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		unix.Close(fd)
	})
	return w
}

// open returns a packet socket of an interface. Its reads return after 100 ms at the latest.
func open(iface string) (int, error) {
	link, err := net.InterfaceByName(iface)
	if err != nil {
		return -1, err
	}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}),
	)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// read collects packets until stop is closed, at which it looks after each packet and each timeout
// of the socket.
func (w *Wire) read(fd int, stop <-chan struct{}) {
	buffer := make([]byte, 2048) // headers are enough
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) {
			continue
		}
		w.mu.Lock()
		if err != nil {
			w.err = err
			w.mu.Unlock()
			return
		}
		if p, ok := packet.Decode(slices.Clone(buffer[:n])); ok && len(w.seen) < most {
			w.seen = append(w.seen, p)
		}
		w.mu.Unlock()
	}
}

// Packets returns what matches of what was seen so far; a nil match is all.
func (w *Wire) Packets(match func(Packet) bool) []Packet {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Packet
	for _, p := range w.seen {
		if match == nil || match(p) {
			list = append(list, p)
		}
	}
	return list
}

// Wait returns the first packet that matches. After 3 s without one the test fails, with the last packets that were
// seen.
func (w *Wire) Wait(t testing.TB, what string, match func(Packet) bool) Packet {
	t.Helper()
	var found []Packet
	wait.NoError(t, 3*time.Second, what, func() error {
		if found = w.Packets(match); len(found) > 0 {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Errorf("not seen on %s; the last of %d packets: %s; error %v", w.what, len(w.seen), last(w.seen),
			w.err)
	})
	return found[0]
}

// last shows the ten newest packets for an error's text.
func last(list []Packet) string {
	var lines []string
	for _, p := range list[max(0, len(list)-10):] {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "; ")
}
