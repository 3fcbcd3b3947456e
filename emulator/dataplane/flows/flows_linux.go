// Package flows moves UDP flows of an emulated host away from backends that are gone: connection tracking would keep
// them there.
package flows

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/rtnl"
)

// pause is the least time between two walks through the kernel's table of flows. One walk takes 3 to 8 ms whatever is
// in it (262,144 buckets, shared by all network namespaces, Linux 6.18), so a burst of small changes shares one.
const pause = 20 * time.Millisecond

// Mover moves the flows of one host.
type Mover struct {
	h        *rtnl.Handle
	backends func(family string, frontends []string) map[string][]string

	mu      sync.Mutex
	pending map[string]map[string]bool // by family, frontends; under mu
	done    chan struct{}              // closed when the goroutine has ended; nil if none runs; under mu
	closed  bool                       // under mu
}

// New is the mover of the host that h is open in. backends returns the backends that flows may stay with, by UDP
// frontend; it is asked from another goroutine, and may lock what the caller of Soon holds.
func New(h *rtnl.Handle, backends func(family string, frontends []string) map[string][]string) *Mover {
	return &Mover{h: h, backends: backends}
}

// Soon moves the flows of frontends at once, but without the caller waiting for it.
func (m *Mover) Soon(family string, frontends []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(frontends) == 0 || m.closed {
		return
	}
	if m.pending == nil {
		m.pending = map[string]map[string]bool{}
	}
	if m.pending[family] == nil {
		m.pending[family] = map[string]bool{}
	}
	for _, f := range frontends {
		m.pending[family][f] = true
	}
	if m.done == nil {
		m.done = make(chan struct{})
		go m.run(m.done)
	}
}

// run moves flows until no frontend is pending, and closes done. It holds no lock while it walks through the kernel's
// flows, which takes milliseconds.
func (m *Mover) run(done chan struct{}) {
	defer close(done)
	for {
		pending := m.take()
		if pending == nil {
			return
		}
		for family, frontends := range pending {
			backends := m.backends(family, slices.Sorted(maps.Keys(frontends)))
			if err := m.Move(family, backends); err != nil {
				klog.Background().Error(err, "UDP flows stay with backends that are gone")
			}
		}
		time.Sleep(pause) // Close waits for it, at most this long
	}
}

// take returns what is pending. Without any it returns nil, and the goroutine counts as ended.
func (m *Mover) take() map[string]map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pending) == 0 || m.closed {
		m.done = nil
		return nil
	}
	pending := m.pending
	m.pending = nil
	return pending
}

// Settle waits until no flow is left to move.
func (m *Mover) Settle() {
	for {
		m.mu.Lock()
		done := m.done
		m.mu.Unlock()
		if done == nil {
			return
		}
		<-done
	}
}

// Close ends the mover. What is pending stays where it is.
func (m *Mover) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.Settle()
}

// Move forgets the flows of UDP frontends that lead to what is not their backend any more, so that their next packet
// finds a new one. TCP flows stay: they end by themselves. backends gives, by frontend, the backends that flows may
// stay with. The family is "ip" or "ip6".
func (m *Mover) Move(family string, backends map[string][]string) error {
	if len(backends) == 0 {
		return nil
	}
	af := netlink.InetFamily(unix.AF_INET)
	if family == "ip6" {
		af = unix.AF_INET6
	}
	f := &staleUDP{backends: backends, local: map[string]bool{}}
	addrs, err := m.h.AddrList(nil, int(af))
	if err != nil {
		return fmt.Errorf("reading the host's addresses: %w", err)
	}
	for _, a := range addrs {
		f.local[a.IP.String()] = true
	}
	if _, err := m.h.ConntrackDeleteFilters(netlink.ConntrackTable, af, f); err != nil &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("moving udp flows: %w", err)
	}
	return nil
}

type staleUDP struct {
	backends map[string][]string
	local    map[string]bool
}

// MatchConntrackFlow is netlink's question which flows to delete.
func (s *staleUDP) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	port := strconv.Itoa(int(flow.Forward.DstPort))
	backends, ok := s.backends[flow.Forward.DstIP.String()+" . "+port]
	if !ok && s.local[flow.Forward.DstIP.String()] {
		backends, ok = s.backends[port]
	}
	if !ok {
		return false
	}
	now := flow.Reverse.SrcIP.String() + " . " + strconv.Itoa(int(flow.Reverse.SrcPort))
	for _, b := range backends {
		if b == now {
			return false
		}
	}
	return true
}
