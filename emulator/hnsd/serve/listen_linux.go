package serve

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/platform"
)

// listensIn gives the question who listens in a network namespace: programs under Wine have their sockets there too.
// What cannot be read counts as nobody.
func listensIn(netns string) func(protocol uint8, addr netip.Addr, port uint16) bool {
	return func(protocol uint8, addr netip.Addr, port uint16) bool {
		name := map[uint8]string{6: "tcp", 17: "udp"}[protocol]
		if name == "" || port == 0 {
			return false
		}

		found := false
		err := platform.InNetns(netns, func() error {
			for _, table := range []string{name, name + "6"} {
				// A table of IPv6 has the sockets that take both families as well.
				f, err := os.Open("/proc/thread-self/net/" + table)
				if os.IsNotExist(err) {
					continue // no IPv6
				}
				if err != nil {
					return err
				}
				found = found || slices.ContainsFunc(listeners(bufio.NewScanner(f), port),
					func(at netip.Addr) bool { return serves(at, addr) })
				f.Close()
			}
			return nil
		})

		// An error means that nobody listens, so that a host whose namespace cannot be read still
		// gets node ports.
		if err != nil {
			klog.Background().Error(err, "Looking for listeners of the host")
		}
		return found
	}
}

// serves reports whether a socket bound to at takes what comes for addr; an invalid addr is any of the host's but
// loopback.
func serves(at, addr netip.Addr) bool {
	if at.IsUnspecified() {
		return true
	}
	if !addr.IsValid() {
		return !at.IsLoopback()
	}
	return at == addr
}

// listeners are the addresses at which sockets of a table of /proc/net wait on a port: of TCP those that listen, of
// UDP those without a peer.
func listeners(lines *bufio.Scanner, port uint16) []netip.Addr {
	// States of struct tcp_states in the kernel's include/net/tcp_states.h: 10 is TCP_LISTEN, 7
	// TCP_CLOSE.
	const listening, unconnected = "0A", "07"
	var addrs []netip.Addr
	suffix := fmt.Sprintf(":%04X", port)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasSuffix(f[1], suffix) || f[3] != listening && f[3] != unconnected {
			continue
		}
		if a, ok := procAddr(strings.TrimSuffix(f[1], suffix)); ok {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// procAddr reads an address as the kernel prints it: 32-bit words in the machine's order, which is little-endian here.
func procAddr(text string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return netip.Addr{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	a, ok := netip.AddrFromSlice(raw)
	return a.Unmap(), ok
}
