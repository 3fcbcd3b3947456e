package matrix

import (
	"maps"
	"net"
	"net/netip"
	"testing"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/test/proxy/lab"
)

// What the prober says is what happens: who answers, who refuses, who is silent, and only in its own namespace.
func TestProber(t *testing.T) {
	path := netspace.New(t, "prober").Path
	s := &lab.Stage{T: t}
	p := startProber(s, path)
	s.Serve(lab.Place{Name: "one", Netns: path, Addr: netip.MustParseAddr("127.0.0.1")}, 8080)
	s.Must(platform.InNetns(path, func() error {
		silent, err := net.ListenPacket("udp4", "127.0.0.1:8081")
		if err == nil {
			t.Cleanup(func() { silent.Close() })
		}
		return err
	}))

	for _, test := range []struct {
		proto, addr string
		want        map[string]int
	}{
		{"tcp", "127.0.0.1:8080", map[string]int{"one 127.0.0.1": 5}},
		{"udp", "127.0.0.1:8080", map[string]int{"one 127.0.0.1": 5}},
		{"tcp", "127.0.0.1:8082", map[string]int{refused: 3}},
		{"udp", "127.0.0.1:8082", map[string]int{refused: 3}},
		{"udp", "127.0.0.1:8081", map[string]int{timeout: 2}},
		{"tcp", "192.0.2.1:80", map[string]int{unreachable: 3}},
	} {
		if got := <-p.ask(question{Proto: test.proto, Addr: test.addr, N: 5}); !maps.Equal(got, test.want) {
			t.Errorf("%s %s: got %v, want %v", test.proto, test.addr, got, test.want)
		}
	}

	// More questions at once than the prober takes: all are answered.
	var pending []<-chan map[string]int
	for range 3 * atOnce {
		pending = append(pending, p.ask(question{Proto: "tcp", Addr: "127.0.0.1:8080", N: 2}))
	}

	for i, answer := range pending {
		if got := <-answer; got["one 127.0.0.1"] != 2 {
			t.Fatalf("question %d: %v", i, got)
		}
	}
}
