package confine

import (
	"fmt"
	"os"

	"porthole.dev/porthole/internal/platform"
)

// OpenNetwork lets programs without rights do in the network namespace at a path what all programs may on Windows:
// listen at ports below 1024, and send echo requests (ping), for which Linux has a socket of its own (icmp(7)). "" is
// the caller's own.
func OpenNetwork(netns string) error {
	err := platform.InNetns(netns, func() error {
		for _, s := range []struct{ name, value string }{{"ip_unprivileged_port_start", "0"},
			{"ping_group_range", "0 2147483647"}} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+s.name, []byte(s.value), 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("opening a network namespace to programs without rights: %w", err)
	}
	return nil
}
