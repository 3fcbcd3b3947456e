package networks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestBGP: the nodes announce their ranges to FRR on the router and learn those of the others from it, with the nodes themselves as
// next hops, so that packets do not pass the router. Each node has a /23.
func TestBGP(t *testing.T) {
	l := up(t, "bgp", "--node-cidr-mask-size", "23")
	wait.NoError(t, time.Minute, "the router to have a route to each node's pods", func() error {
		has, err := commandIn("porthole-tor", shortly, "ip", "route", "show", "proto", "bgp")
		if err != nil {
			return err
		}
		for name, addr := range l.nodes {
			if !strings.Contains(has, "via "+addr.String()+" ") {
				return fmt.Errorf("no route through %s (%s):\n%s", name, addr, has)
			}
		}
		return nil
	})

	f := l.fleet()
	f.checkPaths(promise{
		mtu:  1500,
		via:  func(_, to string) string { return to },
		hops: func(l *lab, from, to string) []string { return []string{l.firstHop(from), l.nodes[to].String()} },
	})
	f.checkStatus(3, 1)
}
