package dataplane

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// moverPause is the least time between two walks through the kernel's table of flows. One walk takes 3 to 8 ms
// whatever is in it (262,144 buckets, shared by all network namespaces, Linux 6.18), so a burst of small changes
// shares one.
const moverPause = 20 * time.Millisecond

// moveSoon moves the flows of frontends at once, but without the caller waiting for it. It is called under d.mu.
func (d *DataPlane) moveSoon(table string, frontends []string) {
	if len(frontends) == 0 || d.mover.closed {
		return
	}
	if d.mover.pending == nil {
		d.mover.pending = map[string]map[string]bool{}
	}
	if d.mover.pending[table] == nil {
		d.mover.pending[table] = map[string]bool{}
	}
	for _, f := range frontends {
		d.mover.pending[table][f] = true
	}
	if d.mover.done == nil {
		d.mover.done = make(chan struct{})
		go d.move(d.mover.done)
	}
}

// move moves flows until no frontend is pending, and closes done. It holds d.mu only while it takes the list, because
// the walk through the kernel's flows takes milliseconds.
func (d *DataPlane) move(done chan struct{}) {
	defer close(done)
	for {
		d.mu.Lock()
		if len(d.mover.pending) == 0 || d.mover.closed {
			d.mover.done = nil
			d.mu.Unlock()
			return
		}
		backends := map[string]map[string][]string{}
		for table, frontends := range d.mover.pending {
			backends[table] = d.have.rules(table).udpBackends(sortedKeys(frontends))
		}
		d.mover.pending = nil
		d.mu.Unlock()
		for table := range backends {
			if err := d.moveFlows(table, backends[table]); err != nil {
				klog.Background().Error(err, "UDP flows stay with backends that are gone")
			}
		}
		time.Sleep(moverPause) // Close waits for it, at most this long
	}
}

// settle waits until no flow is left to move.
func (d *DataPlane) settle() {
	for {
		d.mu.Lock()
		done := d.mover.done
		d.mu.Unlock()
		if done == nil {
			return
		}
		<-done
	}
}

// moveUDP forgets the flows of the given frontends that lead to what is not their backend any more, so that their next
// packet finds a new one. TCP flows stay: they end by themselves.
func (d *DataPlane) moveUDP(table string, frontends []string, want State) error {
	if len(frontends) == 0 {
		return nil
	}
	return d.moveFlows(table, want.rules(table).udpBackends(frontends))
}

// moveFlows takes, by UDP frontend, the backends that flows may stay with.
func (d *DataPlane) moveFlows(table string, backends map[string][]string) error {
	af := netlink.InetFamily(unix.AF_INET)
	if table == "ip6" {
		af = unix.AF_INET6
	}
	f := &staleUDP{backends: backends, local: map[string]bool{}}
	addrs, err := d.handle.AddrList(nil, int(af))
	if err != nil {
		return fmt.Errorf("reading the host's addresses: %w", err)
	}
	for _, a := range addrs {
		f.local[a.IP.String()] = true
	}
	if _, err := d.handle.ConntrackDeleteFilters(netlink.ConntrackTable, af, f); err != nil &&
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
