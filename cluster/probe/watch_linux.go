package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/packet"
	"porthole.dev/porthole/internal/platform"
)

// frame is one frame that was seen.
type frame struct {
	at, iface string
	out       bool
	when      time.Time
	packet    packet.Packet // what a tunnel carries, if it is one
	payload   []byte        // the whole frame
}

// most bounds the frames that are kept. A probe takes seconds, in which a cluster that works sends some thousands.
const most = 50000

// watcher sees every frame of some networks.
type watcher struct {
	tasks sync.WaitGroup
	stop  chan struct{}

	mu     sync.Mutex
	frames []frame
	err    error
}

// watch begins to see the frames of networks: namespaces by the names that sightings have.
func watch(namespaces map[string]string) (*watcher, error) {
	w := &watcher{stop: make(chan struct{})}
	for name, netns := range namespaces {
		var fd int
		var names map[int]string
		err := platform.InNetns(netns, func() (err error) {
			if names, err = interfaces(); err == nil {
				fd, err = packetSocket()
			}
			return err
		})
		if err != nil {
			w.close()
			return nil, fmt.Errorf("watching the network of %s: %w", name, err)
		}
		w.tasks.Go(func() { w.read(fd, name, names) })
	}
	return w, nil
}

func (w *watcher) close() {
	close(w.stop)
	w.tasks.Wait()
}

func interfaces() (map[int]string, error) {
	list, err := net.Interfaces()
	names := map[int]string{}
	for _, i := range list {
		names[i.Index] = i.Name
	}
	return names, err
}

// packetSocket sees every frame of the network that it is opened in. Its reads return after 50 ms at the latest.
func packetSocket() (int, error) {
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20), // the kernel gives what it may
	)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// read keeps frames until the watcher is closed.
func (w *watcher) read(fd int, at string, names map[int]string) {
	defer unix.Close(fd)
	buffer, control := make([]byte, 2048), make([]byte, 256)
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		n, c, _, from, err := unix.Recvmsg(fd, buffer, control, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) {
			continue
		}
		if err != nil {
			w.mu.Lock()
			w.err = fmt.Errorf("watching the network of %s: %w", at, err)
			w.mu.Unlock()
			return
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		// on lo each frame goes out and in
		if !ok || names[link.Ifindex] == "lo" && link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		f := frame{at: at, iface: names[link.Ifindex], out: link.Pkttype == unix.PACKET_OUTGOING,
			when: stamp(control[:c]), payload: slices.Clone(buffer[:n])}
		p, ok := packet.Decode(f.payload)
		if !ok {
			continue
		}
		if f.packet = p; p.Inner != nil {
			f.packet = *p.Inner
		}

		w.mu.Lock()
		if len(w.frames) < most {
			w.frames = append(w.frames, f)
		}
		w.mu.Unlock()
	}
}

// stamp is when the kernel saw a frame: frames of several sockets are put in order by it.
func stamp(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			seconds, nanos := nativeInt64(m.Data), nativeInt64(m.Data[8:])
			return time.Unix(seconds, nanos)
		}
	}
	return time.Now()
}

// seen returns the frames so far that match, in the order of time.
func (w *watcher) seen(match func(*frame) bool) (list []frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.frames {
		if match(&w.frames[i]) {
			list = append(list, w.frames[i])
		}
	}
	slices.SortStableFunc(list, func(a, b frame) int { return a.when.Compare(b.when) })
	return list
}

func nativeInt64(b []byte) int64 { return int64(binary.NativeEndian.Uint64(b)) }
