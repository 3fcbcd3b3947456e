package bgp

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// TestOwnRangeOnly: a node of its own AS passes nothing of what it learns to its peers. With all nodes in one AS that would not be seen,
// because BGP does not pass such routes on by itself (RFC 4271, 9.2).
func TestOwnRangeOnly(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	r.start(func(int) string { return fast + "fullMesh: true\n" })
	list := nodes()
	for i := range list {
		list[i].Annotations = map[string]string{AnnotationAS: strconv.Itoa(own(i))}
	}
	for _, a := range r.agents {
		a.stop()
		a.nodes(list)
		a.start()
	}

	r.complete(20 * time.Second)
	for _, a := range r.agents {
		for _, p := range a.status().Peers {
			if p.Learnt != 1 {
				t.Errorf("%s has learnt %d paths of %s, want its own range only", a.path, p.Learnt, p.Address)
			}
		}
	}
}

// TestReflector: a node with clients passes what it learns inside its AS to them, so that they need no other peer.
func TestReflector(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	client := "- {peerIP: %s, asNumber: 64512, routeReflectorClient: true}\n"
	r.start(func(i int) string {
		if i == 0 {
			return fast + "peers:\n" + fmt.Sprintf(client+client, hosts[1].addr, hosts[2].addr)
		}
		return fast + fmt.Sprintf("peers:\n- {peerIP: %s, asNumber: 64512}\n", hosts[0].addr)
	})
	r.complete(20 * time.Second)
	for i := range hosts {
		r.wantRoutes(i, 5*time.Second, direct(i)...)
	}
}
