package relay

import (
	"net/netip"
	"testing"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestUDPRefused: a query that a backend refuses (with ICMP) is answered by another one. Windows does not report that.
func TestUDPRefused(t *testing.T) {
	r := newRelay(t, Options{})
	dead1, dead2 := free(t, hns.UDP).AddrPort, free(t, hns.UDP).AddrPort
	at := serve(t, r, hns.UDP, Config{Backends: []netip.AddrPort{dead1, dead2, serveUDP(t, 'a')}})
	for range 50 {
		if answer, err := ask(t, dialUDP(t, at), "?"); err != nil || answer != "a?" {
			t.Fatalf("%q, %v; %+v", answer, err, r.Stats()["test"])
		}
	}
	r.Set("test", Config{Backends: []netip.AddrPort{dead1, dead2}})
	_, err := dialUDP(t, at).Write([]byte("?"))
	must(t, err)
	wait.True(t, limit, "the end of a flow that nobody takes",
		func() bool { s := r.Stats()["test"]; return s.Dropped == 1 })
}
