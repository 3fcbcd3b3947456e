// Sockets does with package net what Windows programs do with it, on loopback, and exits with 1 at the first failure.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

var wanted = net.IPv4(192, 0, 2, 7)

func main() {
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"udp", udp}, {"tcp", tcp}, {"lookup by Go", lookupByGo}, {"lookup by Windows", lookupByWindows},
		{"interfaces", interfaces}, {"refused", refused},
	} {
		begin := time.Now()
		if err := check.run(); err != nil {
			fmt.Printf("%s: %v\n", check.name, err)
			os.Exit(1)
		}
		fmt.Printf("%s: ok, %v\n", check.name, time.Since(begin).Round(time.Millisecond))
	}
}

// answer serves packets until the listener is closed.
func answer(c net.PacketConn, f func([]byte) []byte) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFrom(buffer)
		if err != nil {
			return
		}
		c.WriteTo(f(buffer[:n]), from)
	}
}

func exchange(c net.Conn) error {
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	for _, size := range []int{1, 1200, 9000} {
		sent, got := make([]byte, size), make([]byte, size)
		sent[size-1] = 'x'
		if _, err := c.Write(sent); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, got); err != nil {
			return err
		}
		if !slices.Equal(sent, got) {
			return fmt.Errorf("%d bytes came back different", size)
		}
	}
	return nil
}

func udp() error {
	for _, listen := range []string{"127.0.0.1:0", ":0"} {
		server, err := net.ListenPacket("udp4", listen)
		if err != nil {
			return err
		}
		go answer(server, func(b []byte) []byte { return b })
		_, port, _ := net.SplitHostPort(server.LocalAddr().String())
		client, err := net.Dial("udp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		if err := errors.Join(exchange(client), server.Close()); err != nil {
			return err
		}
	}
	return nil
}

func tcp() error {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Close()
	go func() {
		if c, err := server.Accept(); err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	client, err := net.DialTimeout("tcp", server.Addr().String(), 5*time.Second)
	if err != nil {
		return err
	}
	probes := net.KeepAliveConfig{Enable: true, Idle: 100 * time.Second, Interval: 7 * time.Second, Count: 3}
	if err := client.(*net.TCPConn).SetKeepAliveConfig(probes); err != nil {
		return fmt.Errorf("probes of a silent peer: %w", err)
	}
	return exchange(client)
}

// nameServer answers every question about IPv4 addresses with the wanted one.
func nameServer(query []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte(wanted.To4())},
		}}
	}
	out, _ := m.Pack()
	return out
}

func lookupByGo() error {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Close()
	go answer(server, nameServer)
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	return oneAddress(r.LookupHost, "some.name.example.", wanted.String())
}

func lookupByWindows() error {
	return oneAddress(net.DefaultResolver.LookupHost, "localhost", "127.0.0.1")
}

func oneAddress(lookup func(context.Context, string) ([]string, error), name, address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got, err := lookup(ctx, name)
	if err == nil && !slices.Contains(got, address) {
		err = fmt.Errorf("%s is %v, not %s", name, got, address)
	}
	return err
}

func interfaces() error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			return nil
		}
	}
	return fmt.Errorf("127.0.0.1 is not among %v", addresses)
}

// refused: an error of the system arrives as one.
func refused() error {
	if c, err := net.DialTimeout("tcp", "127.0.0.1:1", 5*time.Second); err == nil {
		c.Close()
		return errors.New("connected to a port that nobody listens on")
	}
	return nil
}
