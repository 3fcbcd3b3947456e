package main

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/windows"
)

// Go's net package asks for SIO_UDP_NETRESET on each UDP socket and gives up without it; Wine 8.0 lacks it (observed
// 2026-11). So UDP is done with plain sockets here; on Windows it is the same.

const soRcvTimeo = 0x1006

func udpSocket() (windows.Handle, error) {
	var data windows.WSAData
	if err := windows.WSAStartup(0x202, &data); err != nil {
		return 0, err
	}
	return windows.Socket(windows.AF_INET, windows.SOCK_DGRAM, windows.IPPROTO_UDP)
}

func udpAddress(addr string) (*windows.SockaddrInet4, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, err
	}
	to := &windows.SockaddrInet4{Port: port}
	if host == "" {
		return to, nil
	}
	ip, err := net.ResolveIPAddr("ip4", host)
	if err != nil {
		return nil, err
	}
	copy(to.Addr[:], ip.IP.To4())
	return to, nil
}

// udpListen starts an echo server; its end comes from the channel.
func udpListen(addr string) (<-chan error, error) {
	at, err := udpAddress(addr)
	if err != nil {
		return nil, err
	}
	s, err := udpSocket()
	if err != nil {
		return nil, err
	}
	if err := windows.Bind(s, at); err != nil {
		return nil, fmt.Errorf("listening on udp %s: %w", addr, err)
	}
	failed := make(chan error, 1)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, from, err := windows.Recvfrom(s, buffer, 0)
			if err == nil {
				err = windows.Sendto(s, buffer[:n], 0, from)
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	return failed, nil
}

// udpExchange sends one packet and gives the next one that comes back.
func udpExchange(addr string, packet []byte, timeout time.Duration) ([]byte, error) {
	to, err := udpAddress(addr)
	if err != nil {
		return nil, err
	}
	s, err := udpSocket()
	if err != nil {
		return nil, err
	}
	defer windows.Closesocket(s)
	if err := windows.SetsockoptInt(s, windows.SOL_SOCKET, soRcvTimeo, int(timeout.Milliseconds())); err != nil {
		return nil, err
	}
	if err := windows.Sendto(s, packet, 0, to); err != nil {
		return nil, fmt.Errorf("sending to udp %s: %w", addr, err)
	}
	buffer := make([]byte, 64<<10)
	n, _, err := windows.Recvfrom(s, buffer, 0)
	if err != nil {
		return nil, fmt.Errorf("answer of udp %s: %w", addr, err)
	}
	return buffer[:n], nil
}
