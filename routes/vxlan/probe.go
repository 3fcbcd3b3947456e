package vxlan

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
)

// prober finds out whether packets as large as the uplink sends reach other nodes whole. A network between them with a
// smaller MTU loses encapsulated packets silently: small requests work, and large answers never come. It sends ICMP
// echo requests that must not be fragmented (RFC 1191) to the nodes' own addresses. A node that answers none is not
// judged: its firewall may drop them.
type prober struct {
	open func() (net.PacketConn, error) // a socket for ICMP whose packets are not fragmented
	wake wakeup.Signal

	mu    sync.Mutex
	mtu   int // of the uplink
	nodes map[netip.Addr]*probed
}

// probed is what is known of the path to one node.
type probed struct {
	at     time.Time // zero: never asked
	size   int       // largest packet that arrives; 0: not known
	silent int       // times in a row without an answer
	asked  bool      // false: answers are to questions from before it was new, and do not count
}

// narrow returns the largest packet that arrives if it is smaller than mtu, else 0.
func (n *probed) narrow(mtu int) int {
	if n.size < mtu {
		return n.size
	}
	return 0
}

const (
	probeAgain = 30 * time.Minute // a node that answered is asked again
	// probeSilent is when a node that did not answer is asked again. The wait doubles each time: in a large cluster
	// whose firewalls drop ICMP the questions would cost more than all else.
	probeSilent  = 30 * time.Second
	probeRound   = 500 * time.Millisecond // questions wait for answers: long enough for every network that carries pods
	probesAtOnce = 64                     // nodes in one round
	// probesApart is how long each node that was asked makes the next round wait: what large clusters cost is spread,
	// and the tables of neighbours of hosts and switches keep room for others.
	probesApart = 250 * time.Millisecond
)

func newProber(open func() (net.PacketConn, error)) *prober {
	return &prober{open: open, wake: wakeup.New(), nodes: map[netip.Addr]*probed{}}
}

// expect sets which nodes are asked, and returns those to which packets of the uplink's size do not get, with the size
// that does.
func (p *prober) expect(nodes []netip.Addr, mtu int) map[netip.Addr]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mtu != mtu {
		p.mtu, p.nodes = mtu, map[netip.Addr]*probed{}
	}

	fresh := map[netip.Addr]*probed{}
	narrow := map[netip.Addr]int{}
	for _, addr := range nodes {
		n := p.nodes[addr]
		if n == nil {
			n = &probed{}
			p.wake.Wake()
		}
		fresh[addr] = n
		if size := n.narrow(mtu); size > 0 {
			narrow[addr] = size
		}
	}
	p.nodes = fresh
	return narrow
}

// run asks until ctx ends, and calls changed when an answer says something new.
func (p *prober) run(ctx context.Context, changed func()) {
	for {
		due, mtu := p.due(time.Now())
		p.round(ctx, due[:min(len(due), probesAtOnce)], mtu, changed)
		if len(due) > probesAtOnce {
			if !wakeup.Pause(ctx, probesAtOnce*probesApart) {
				return
			}
			continue
		}

		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-time.After(probeSilent):
		}
	}
}

// round asks nodes, no more than probesAtOnce.
func (p *prober) round(ctx context.Context, nodes []netip.Addr, mtu int, changed func()) {
	if len(nodes) == 0 {
		return
	}
	sizes, err := p.sizes(ctx, nodes, mtu)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Probing the path MTU to other nodes")
	}
	if ctx.Err() != nil {
		return
	}
	different, silent := p.learn(nodes, sizes, mtu)
	if different {
		changed()
	}
	if err == nil && len(silent) > 0 {
		klog.FromContext(ctx).
			Info(
				"Nodes do not answer ICMP echo requests: whether packets as large as the network card sends reach them is not known",
				"bytes", mtu, "nodes", len(silent), "first", silent[0])
	}
}

// due returns the nodes that are to be asked now.
func (p *prober) due(now time.Time) (due []netip.Addr, mtu int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, n := range p.nodes {
		holds := probeAgain
		if n.size == 0 {
			holds = min(holds, probeSilent<<min(max(n.silent-1, 0), 10))
		}
		if now.Sub(n.at) >= holds {
			n.asked = true
			due = append(due, addr)
		}
	}
	return due, p.mtu
}

// learn keeps how large packets each node that was asked answered; sizes has none of those that did not. different is
// true if expect now returns something else than before, and silent are the nodes that did not answer the first time
// that they were asked. A node that gets all packets changes nothing: a pass for each such answer would be most of what
// a large cluster costs.
func (p *prober) learn(asked []netip.Addr, sizes map[netip.Addr]int, mtu int) (different bool, silent []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if mtu != p.mtu {
		return false, nil
	}
	for _, addr := range asked {
		n := p.nodes[addr]
		if n == nil || !n.asked {
			continue
		}
		if n.at.IsZero() && sizes[addr] == 0 {
			silent = append(silent, addr)
		}
		n.at, n.silent = time.Now(), n.silent+1
		if sizes[addr] > 0 {
			n.silent = 0
		}
		before := n.narrow(mtu)
		n.size = sizes[addr]
		different = different || n.narrow(mtu) != before
	}
	return different, silent
}

// echo is one question: a packet of that size to a node.
type echo struct {
	node netip.Addr
	size int
}

// smallest is a packet that every network carries (RFC 791: 68 bytes).
const smallest = 68

// sizes returns the largest packet that reaches each node, up to mtu. Nodes that do not answer are left out.
func (p *prober) sizes(ctx context.Context, nodes []netip.Addr, mtu int) (map[netip.Addr]int, error) {
	large := make([]echo, len(nodes))
	for i, n := range nodes {
		large[i] = echo{n, mtu}
	}
	answered, err := p.ask(ctx, large)
	if err != nil {
		return nil, err
	}

	var again []echo // one of two packets may be lost
	for _, n := range nodes {
		if !answered[echo{n, mtu}] {
			again = append(again, echo{n, mtu}, echo{n, smallest})
		}
	}
	late, err := p.ask(ctx, again)
	if err != nil {
		return nil, err
	}

	found := map[netip.Addr]int{}
	for _, n := range nodes {
		switch {
		case answered[echo{n, mtu}] || late[echo{n, mtu}]:
			found[n] = mtu
		case late[echo{n, smallest}]:
			if found[n], err = p.search(ctx, n, mtu); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// search narrows the largest packet that reaches a node down in two rounds: first in steps of 32 bytes.
func (p *prober) search(ctx context.Context, node netip.Addr, mtu int) (int, error) {
	best := smallest
	for _, step := range []int{32, 1} {
		var questions []echo
		for size := best; size < mtu && len(questions) < 2000/step; size += step {
			questions = append(questions, echo{node, size})
		}
		answered, err := p.ask(ctx, questions)
		if err != nil {
			return 0, err
		}
		for e := range maps.Keys(answered) {
			best = max(best, e.size)
		}
		if step == 32 {
			mtu = min(mtu, best+32)
		}
	}
	return best, nil
}

// ask sends all questions and returns those that were answered within a round.
func (p *prober) ask(ctx context.Context, questions []echo) (map[echo]bool, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	conn, err := p.open()
	if err != nil {
		return nil, fmt.Errorf("opening a socket for ICMP: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	var key [keySize]byte
	rand.Read(key[:])
	for i, q := range questions {
		to := &net.IPAddr{IP: q.node.AsSlice()}
		// A router's message about one packet may come as the error of the next. A packet that cannot be sent gets no
		// answer.
		if _, err := conn.WriteTo(echoRequest(key, uint16(i), q.size), to); err != nil {
			_, _ = conn.WriteTo(echoRequest(key, uint16(i), q.size), to)
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(probeRound)); err != nil {
		return nil, fmt.Errorf("waiting for answers of ICMP: %w", err)
	}
	return receive(conn, key, questions), nil
}

// openICMP opens a socket for ICMP with the address self, whose packets are not fragmented.
func openICMP(self netip.Addr) (net.PacketConn, error) {
	conn, err := net.ListenIP("ip4:1", &net.IPAddr{IP: self.AsSlice()}) // 1 is ICMP (RFC 792)
	if err != nil {
		return nil, err
	}
	err = conn.SetReadBuffer(4 << 20)
	if raw, failed := conn.SyscallConn(); failed != nil {
		err = failed
	} else if failed := raw.Control(func(fd uintptr) { err = errors.Join(err, dontFragment(fd)) }); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Types of ICMP and the sizes of headers (RFC 791, 792).
const (
	echoReplyType, echoRequestType = 0, 8
	ipHeader, icmpHeader           = 20, 8
)

// keySize is the length of a key in bytes. Each round has a random key, which its questions carry in their data and
// which comes back in the answers. The identifier of ICMP would not do: it has 16 bits only, Linux changes it for
// unprivileged programs (icmp(7)), and NATs do too.
const keySize = 8

// echoRequest returns the message that makes an IP packet of that size.
func echoRequest(key [keySize]byte, sequence uint16, size int) []byte {
	m := make([]byte, size-ipHeader)
	m[0] = echoRequestType
	copy(m[4:], key[:2])
	binary.BigEndian.PutUint16(m[6:], sequence)
	copy(m[icmpHeader:], key[:])

	sum := uint32(0)
	for i := 0; i+1 < len(m); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(m[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum>>16+sum))
	return m
}

// receive collects answers until the deadline of conn, or until all have come. Other errors end no round: Windows
// reports packets of others in that way.
func receive(conn net.PacketConn, key [keySize]byte, questions []echo) map[echo]bool {
	answered, left := map[echo]bool{}, len(questions)
	buffer := make([]byte, 1<<16)
	for end := time.Now().Add(probeRound); left > 0 && time.Now().Before(end); {
		n, _, err := conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			break
		}
		m := buffer[:n] // without the header of IP
		if err != nil || n < icmpHeader+keySize || m[0] != echoReplyType || !bytes.HasPrefix(m[icmpHeader:], key[:]) {
			continue
		}
		if i := int(binary.BigEndian.Uint16(m[6:])); i < len(questions) && !answered[questions[i]] {
			answered[questions[i]] = true
			left--
		}
	}
	return answered
}
