package netspace

import (
	"net"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// TestPacketsReach goes from one namespace through a router with a bridge to another, and leaves nothing behind.
func TestPacketsReach(t *testing.T) {
	var names []string
	t.Run("packets", func(t *testing.T) {
		a, router, b := New(t, "a"), New(t, "router"), New(t, "b")
		names = append(names, a.Name, router.Name, b.Name)
		a.Connect("eth0", router, "a")
		b.Connect("eth0", router, "b")
		router.Bridge("sw0", "a")
		router.Address("sw0", "10.1.0.1/24", "fd01::1/64")
		router.Address("b", "10.2.0.1/24")
		router.Forward()
		a.Address("eth0", "10.1.0.2/24")
		a.Route("0.0.0.0/0", "10.1.0.1")
		b.Address("eth0", "10.2.0.2/24")
		b.Route("10.1.0.0/24", "10.2.0.1")

		var listener net.Listener
		b.Do(func() (err error) {
			listener, err = net.Listen("tcp", "10.2.0.2:80")
			return err
		})
		defer listener.Close()
		a.Do(func() error {
			conn, err := net.DialTimeout("tcp", "10.2.0.2:80", 5*time.Second)
			if err == nil {
				conn.Close()
			}
			return err
		})
	})
	for _, name := range names {
		if platform.NetnsExists(name) {
			t.Errorf("%s is still there", name)
		}
	}
}
