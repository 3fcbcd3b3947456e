package lab_test

import (
	"net/netip"
	"testing"
	"time"

	"porthole.dev/porthole/test/proxy/lab"
)

// TestPackets sends packets between everything that a Lab is made of, without any proxy.
func TestPackets(t *testing.T) {
	s := lab.NewStage(t, lab.Options{Bin: bin, Prefix: "labnet", NoAPI: true})
	l := s.Lab
	node, err := l.AddNode(t.Context(), "lin1")
	s.Must(err)
	far := s.Pod(node, "far", 8080)
	h := s.AddHost(lab.HostOptions{Name: "win1", NoWine: true})
	near := s.Pod(h, "near", 8080)
	s.Serve(l.Outside, 8080)

	for _, c := range []struct {
		what     string
		from, to lab.Place
		as       netip.Addr // how the server sees the client
	}{
		{"pod of the host to pod of the node", near.Place, far.Place, near.Addr},
		{"pod of the node to pod of the host", far.Place, near.Place, far.Addr},
		{"pod of the host to the outside", near.Place, l.Outside, h.Addr}, // outbound NAT
		{"outside to pod of the host", l.Outside, near.Place, l.Outside.Addr},
		{"host to its pod", h.Place, near.Place, netip.MustParseAddr("10.244.2.2")},
		{"node to pod of the host", node.Place, near.Place, node.Addr},
		{"host to pod of the node", h.Place, far.Place, h.Addr},
	} {
		for _, network := range []string{"tcp", "udp"} {
			r, err := c.from.Ask(network, netip.AddrPortFrom(c.to.Addr, 8080), 2*time.Second)
			if err != nil {
				t.Errorf("%s, %s: %v", c.what, network, err)
				continue
			}
			if r.Name != c.to.Name || r.Client.Addr() != c.as {
				t.Errorf("%s, %s: %s answers %s", c.what, network, r.Name, r.Client)
			}
		}
	}

	drift, err := h.HNS.Verify(t.Context())
	s.Must(err)
	if len(drift) > 0 {
		t.Errorf("drift: %v", drift)
	}
	s.Must(near.Remove(t.Context()))
}
