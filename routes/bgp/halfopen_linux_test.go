package bgp

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestHalfOpen: a peer that says who it is and then nothing more gets another connection after some seconds, long
// before the hold time of 90 s; if it answers there, the session is established.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	var listener net.Listener
	r.tor.Do(func() (err error) { listener, err = net.Listen("tcp", torAddr+":179"); return err })
	t.Cleanup(func() { listener.Close() })
	connections := make(chan net.Conn)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(connections)
				return
			}
			connections <- conn
		}
	}()

	a := newAgent(t, r.host[0].Path, agentNode{Name: hosts[0].name, Addr: netip.MustParseAddr(hosts[0].addr),
		Cluster: cluster}, "peers: [{peerIP: "+torAddr+", asNumber: 64500}]\n")
	a.nodes(nodes()[:1])
	a.start()

	var began time.Time
	for i := range 2 {
		select {
		case conn := <-connections:
			defer conn.Close()
			if err := sayWho(conn, i == 1); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			if i == 0 {
				began = time.Now()
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no connection %d", i)
		}
	}
	if after := time.Since(began); after < halfOpenLimit {
		t.Errorf("the session was given up after %s, want %s or more", after, halfOpenLimit)
	}
	wait.NoError(t, 10*time.Second, "the session", func() error {
		if s := a.status(); len(s.Peers) != 1 || !s.Peers[0].Up {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
}

// sayWho opens a session as AS 64500 and waits for the other side's answer. It answers itself if answers is set.
func sayWho(conn net.Conn, answers bool) error {
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	open, err := bgp.NewBGPOpenMessage(64500, 90, netip.MustParseAddr(torAddr), nil)
	if err != nil {
		return err
	}
	messages := []*bgp.BGPMessage{open}
	if answers {
		messages = append(messages, bgp.NewBGPKeepAliveMessage())
	}
	for _, m := range messages {
		text, err := m.Serialize()
		if err != nil {
			return err
		}
		if _, err := conn.Write(text); err != nil {
			return err
		}
	}

	for _, want := range []uint8{bgp.BGP_MSG_OPEN, bgp.BGP_MSG_KEEPALIVE} {
		header := make([]byte, bgp.BGP_HEADER_LENGTH)
		if _, err := io.ReadFull(conn, header); err != nil {
			return fmt.Errorf("waiting for message %d: %w", want, err)
		}
		if got := header[18]; got != want {
			return fmt.Errorf("message %d, want %d", got, want)
		}
		length := int64(header[16])<<8 | int64(header[17])
		if _, err := io.CopyN(io.Discard, conn, length-bgp.BGP_HEADER_LENGTH); err != nil {
			return err
		}
	}
	return nil
}
