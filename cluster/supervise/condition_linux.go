package supervise

import (
	"net"
	"os"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// Holds tests the condition once, within a second.
func (c Condition) Holds() bool {
	switch {
	case c.TCP != "":
		return c.dial("tcp", c.TCP)
	case c.Dial:
		return c.dial("unix", c.Path)
	default:
		_, err := os.Stat(c.Path)
		return err == nil
	}
}

func (c Condition) dial(network, addr string) bool {
	return platform.InNetns(c.Netns, func() error {
		conn, err := net.DialTimeout(network, addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	}) == nil
}

// String names the condition for people.
func (c Condition) String() string {
	if c.TCP != "" {
		return c.TCP
	}
	return c.Path
}
