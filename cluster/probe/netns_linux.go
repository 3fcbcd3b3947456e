package probe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/platform"
)

// NetnsOf returns paths of the network namespaces, other than this process's own, that have the addresses, by address.
// Those of pods are in different folders, or in none: processes lead to all of them.
func NetnsOf(addresses ...netip.Addr) (map[netip.Addr]string, error) {
	wanted := map[netip.Addr]bool{}
	for _, a := range addresses {
		wanted[a] = true
	}
	paths, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, fmt.Errorf("looking for networks of pods: %w", err)
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("looking for networks of pods: %w", err)
	}

	looked := map[string]bool{own: true}
	found := map[netip.Addr]string{}
	for _, path := range paths {
		id, err := os.Readlink(path)
		if err != nil || looked[id] { // a process may have ended
			continue
		}
		looked[id] = true
		_ = platform.InNetns(path, func() error {
			for _, a := range addressesHere() {
				if _, had := found[a]; wanted[a] && !had {
					found[a] = path
				}
			}
			return nil
		})
	}
	return found, nil
}

func addressesHere() (list []netip.Addr) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix.Addr().Unmap())
		}
	}
	return list
}
