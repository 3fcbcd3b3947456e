package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/packet"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/path"
)

const (
	// answerLimit is how long an answer is waited for: a SYN is sent again after a second.
	answerLimit = 2500 * time.Millisecond
	// grace is how long frames are read after the answer.
	grace = 150 * time.Millisecond
	// tracePort is where a datagram goes for which no port was named: the first of traceroute(8), at which nobody
	// listens.
	tracePort = 33434
)

// Options are what is sent. All are required.
type Options struct {
	// Sender is the network namespace of the sender. Watched are those that are watched, by the names of machines and
	// pods.
	Sender  string
	Watched map[string]string
	To      netip.AddrPort // without a port it is a datagram
	// Protocol is tcp or udp.
	Protocol string
}

// Send sends one packet and returns where it was seen. A packet that is lost is no error.
func Send(ctx context.Context, o Options) (*path.Probe, error) {
	if o.To.Port() == 0 {
		o.To = netip.AddrPortFrom(o.To.Addr(), tracePort)
		o.Protocol = "udp"
	}
	if o.Protocol != "tcp" && o.Protocol != "udp" {
		return nil, fmt.Errorf("a probe is of tcp or udp, not %s", o.Protocol)
	}
	w, err := watch(o.Watched)
	if err != nil {
		return nil, err
	}
	defer w.close()
	// The kernel begins to put times on frames some moments after a socket has asked for them; there is nothing that
	// says so.
	time.Sleep(grace)

	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	p := &path.Probe{Sightings: []path.Sighting{}}
	var match func(*frame) (is, answer bool)
	if o.Protocol == "tcp" {
		p.Sent, p.Answer, match, err = o.connect(ctx, w)
	} else {
		p.Sent, p.Answer, match, err = o.datagram(ctx)
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(grace) // frames are in the sockets' buffers then; there is nothing that says so

	frames := w.seen(func(f *frame) bool { is, _ := match(f); return is })
	for _, f := range frames {
		_, answer := match(&f)
		p.Sightings = append(p.Sightings,
			path.Sighting{At: f.at, Interface: f.iface, Out: f.out, Answer: answer,
				Micros: f.when.Sub(frames[0].when).Microseconds(),
				From:   netip.AddrPortFrom(f.packet.Src, f.packet.SrcPort),
				To:     netip.AddrPortFrom(f.packet.Dst, f.packet.DstPort)})
	}
	return p, w.err
}

// refused is the answer of a machine where nobody listens.
const refused = "a refusal: nobody listens there"

// connect begins a connection of TCP and ends it. Its first packet is known by its sequence number, which no
// translation of addresses changes.
func (o Options) connect(ctx context.Context, w *watcher) (sent, answer string, match func(*frame) (bool, bool),
	err error) {
	var conn net.Conn
	began := time.Now()
	err = platform.InNetns(o.Sender, func() (err error) {
		conn, err = (&net.Dialer{Timeout: answerLimit}).DialContext(ctx, "tcp", o.To.String())
		return err
	})
	switch {
	case err == nil:
		answer = fmt.Sprintf("a connection after %v", time.Since(began).Round(10*time.Microsecond))
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it ends with a reset, and leaves nothing behind at either end
		}
		conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		answer = refused
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err) || errors.Is(err, unix.EHOSTUNREACH) ||
		errors.Is(err, unix.ENETUNREACH):
	default:
		return "", "", nil, fmt.Errorf("sending a probe: %w", err)
	}

	time.Sleep(grace)
	first := w.seen(func(f *frame) bool {
		return f.packet.Protocol == packet.TCP && f.packet.Flags&(packet.FlagSYN|packet.FlagACK) == packet.FlagSYN &&
			f.packet.Dst == o.To.Addr() && f.packet.DstPort == o.To.Port()
	})
	sent = fmt.Sprintf("the first packet of a connection to %s", o.To)
	if len(first) == 0 {
		return sent, answer, func(*frame) (bool, bool) { return false, false }, nil
	}
	number := first[0].packet.Seq
	return sent, answer, func(f *frame) (is, answer bool) {
		if f.packet.Protocol != packet.TCP {
			return false, false
		}
		syn, ack := f.packet.Flags&packet.FlagSYN != 0, f.packet.Flags&packet.FlagACK != 0
		answer = ack && f.packet.Ack == number+1 && (syn || f.packet.Flags&packet.FlagRST != 0)
		return syn && !ack && f.packet.Seq == number || answer, answer
	}, nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// datagram sends one of UDP with random bytes, by which it is known.
func (o Options) datagram(ctx context.Context) (sent, answer string, match func(*frame) (bool, bool), err error) {
	token := make([]byte, 24)
	rand.Read(token) // never fails (package crypto/rand)
	var conn net.Conn
	err = platform.InNetns(o.Sender, func() (err error) {
		if conn, err = (&net.Dialer{}).DialContext(ctx, "udp", o.To.String()); err == nil {
			_, err = conn.Write(token)
		}
		return err
	})
	if conn != nil {
		defer conn.Close()
	}
	match = func(f *frame) (is, answer bool) {
		return f.packet.Protocol == packet.UDP && bytes.Contains(f.payload, token), false
	}
	sent = fmt.Sprintf("a datagram of %d bytes to %s", len(token), o.To)
	if err != nil && (errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH)) {
		return sent, "", match, nil
	}
	if err != nil {
		return "", "", nil, fmt.Errorf("sending a probe: %w", err)
	}

	deadline, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(deadline)
	switch _, err := conn.Read(make([]byte, 2048)); {
	case err == nil:
		answer = "an answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		answer = refused
	}
	return sent, answer, match, nil
}
