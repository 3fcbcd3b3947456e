package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	hnsapi "porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/relay"
)

// What one sample of the group relay does.
// Bytes are those of one connection; trips are round trips of one byte on one connection.
const (
	relayBytes  = 256 << 20
	relayBlock  = 256 << 10
	relayRounds = 9
	relayTrips  = 2000
)

// benchRelay measures the relay of the service proxy's mode userspace over loopback, beside a plain relay (two io.Copy
// between two connections, the least that a program can do) and beside no relay at all. The three take turns.
func benchRelay(ctx context.Context, _ options) error {
	// The sink reads to the end and answers with one byte, so that the sender knows when all has
	// arrived.
	sink, err := loopbackServer(func(c *net.TCPConn) {
		if _, err := io.Copy(io.Discard, c); err == nil {
			_, _ = c.Write([]byte{1}) // a client that has gone needs no answer
		}
	})
	if err != nil {
		return err
	}
	defer sink.Close()

	// The echo server sends back what it gets.
	echo, err := loopbackServer(func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	if err != nil {
		return err
	}
	defer echo.Close()
	r := relay.New(relay.Options{})
	defer r.Close()
	throughput, err := relayFigure(ctx, r, sink, "throughput",
		func(to string) (float64, error) { return pushBytes(to) })
	if err != nil {
		return err
	}

	latency, err := relayFigure(ctx, r, echo, "latency", func(to string) (float64, error) { return roundTrip(to) })
	if err != nil {
		return err
	}
	ours := median(throughput[0])
	plain := median(throughput[1])
	direct := median(throughput[2])
	good := ours >= 0.9*plain
	print(figure{Name: "userspace.throughput", Unit: "MB/s", Ours: ours, Peer: plain, PeerIs: "a plain TCP relay",
		Floor: direct,
		Ratio: round(ours / plain), OfFloor: round(ours / direct), OK: &good,
		Note:    "more is better; at least 0.9 of the plain relay",
		Samples: map[string][]float64{"ours": throughput[0], "peer": throughput[1], "floor": throughput[2]}})

	ours = median(latency[0])
	plain = median(latency[1])
	direct = median(latency[2])
	print(figure{Name: "userspace.roundtrip", Unit: "us", Ours: ours, Peer: plain, PeerIs: "a plain TCP relay",
		Floor: direct,
		Ratio: round(ours / plain), OfFloor: round(ours / direct), Target: plain + 50,
		Note:    "one byte there and back; at most 50 us more than the plain relay",
		Samples: map[string][]float64{"ours": latency[0], "peer": latency[1], "floor": latency[2]}})
	return nil
}

// relayFigure takes the samples of ours, the plain relay and the direct way, in turn.
func relayFigure(ctx context.Context, r *relay.Relay, backend net.Listener, name string,
	measure func(string) (float64, error)) (samples [3][]float64, err error) {
	behind := backend.Addr().(*net.TCPAddr).AddrPort()
	plain, err := plainRelay(behind)
	if err != nil {
		return samples, err
	}
	defer plain.Close()
	at, err := freeRelayPort()
	if err != nil {
		return samples, err
	}

	r.Set(name, relay.Config{Backends: []netip.AddrPort{behind}})
	if err := r.Listen(name, relay.Endpoint{Protocol: hnsapi.TCP, AddrPort: at}); err != nil {
		return samples, err
	}

	// The order is ours, peer, floor, as in the result.
	ways := []string{at.String(), plain.Addr().String(), behind.String()}
	for round := range relayRounds + 1 {
		for i := range ways {
			way := (i + round) % len(ways) // nobody always follows the same one
			value, err := measure(ways[way])
			if err = errors.Join(err, ctx.Err()); err != nil {
				return samples, fmt.Errorf("measuring %s: %w", name, err)
			}
			if round > 0 { // the first one warms up
				samples[way] = append(samples[way], value)
			}
		}
	}

	return samples, nil
}

// loopbackServer accepts until it is closed, and handles each connection in a goroutine of its own.
func loopbackServer(handle func(*net.TCPConn)) (net.Listener, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return l, nil
}

// plainRelay is the peer.
// It does what the relay does for one connection: copies both ways, and passes on the end of each
// direction.
func plainRelay(behind netip.AddrPort) (net.Listener, error) {
	return loopbackServer(func(client *net.TCPConn) {
		backend, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(behind))
		if err != nil {
			return
		}
		defer backend.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(backend, client)
			_ = backend.CloseWrite()
		}()
		_, _ = io.Copy(client, backend)
		_ = client.CloseWrite()
		<-done
	})
}

// freeRelayPort is a port that was free a moment ago; somebody else may take it before the relay
// does.
func freeRelayPort() (netip.AddrPort, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort(), nil
}

// relayDial gives the connection a deadline, so that a relay that loses bytes fails the sample.
func relayDial(to string) (*net.TCPConn, error) {
	c, err := net.DialTimeout("tcp4", to, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), c.SetDeadline(time.Now().Add(time.Minute))
}

// pushBytes gives MB per second, until the other end has all of them.
// MB are of 10^6 bytes.
func pushBytes(to string) (float64, error) {
	c, err := relayDial(to)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	block := make([]byte, relayBlock)
	began := time.Now()
	for sent := 0; sent < relayBytes; sent += len(block) {
		if _, err := c.Write(block); err != nil {
			return 0, err
		}
	}
	if err := c.CloseWrite(); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, block[:1]); err != nil {
		return 0, err
	}
	return relayBytes / 1e6 / time.Since(began).Seconds(), nil
}

// roundTrip returns the median microseconds of one byte there and back on an open connection.
func roundTrip(to string) (float64, error) {
	c, err := relayDial(to)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var times []time.Duration
	b := make([]byte, 1)
	for range relayTrips {
		began := time.Now()
		if _, err := c.Write(b); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / 1e3, nil
}
