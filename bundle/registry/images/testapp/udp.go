package main

import (
	"net"
	"time"
)

// udpListen starts an echo server. The channel receives the error that ends it.
func udpListen(addr string) (<-chan error, error) {
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}

	failed := make(chan error, 1)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buffer)
			if err == nil {
				_, err = c.WriteTo(buffer[:n], from)
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	return failed, nil
}

// udpExchange sends one packet and returns the first one that comes back.
func udpExchange(addr string, packet []byte, timeout time.Duration) ([]byte, error) {
	c, err := net.DialTimeout("udp", addr, timeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := c.Write(packet); err != nil {
		return nil, err
	}
	buffer := make([]byte, 64<<10)
	n, err := c.Read(buffer)
	return buffer[:max(n, 0)], err
}
