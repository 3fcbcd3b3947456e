package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// ncAsked is what the options of nc say, together (-vzw2) or each for itself.
type ncAsked struct {
	udp, scan, tell bool
	limit           time.Duration // of connecting, and of waiting for more; 0: for ever
	port            int           // of this side; 0: any
	operands        []string
}

// ncOptions parses nc's words. Flags may be joined, and a value may follow its flag with or without a space: -zvw3, -w
// 3.
func ncOptions(args []string) (ncAsked, error) {
	var o ncAsked
	for i := 0; i < len(args); i++ {
		flags, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag || flags == "" {
			o.operands = append(o.operands, args[i])
			continue
		}
		for j, flag := range flags {
			if !strings.ContainsRune("wp", flag) {
				if err := o.set(flag); err != nil {
					return o, err
				}
				continue
			}
			value := flags[j+1:]
			if value == "" && i+1 < len(args) {
				i++
				value = args[i]
			}
			n, err := strconv.Atoi(value)
			if err != nil {
				return o, fmt.Errorf("option -%c: %w", flag, err)
			}
			if flag == 'w' {
				o.limit = time.Duration(n) * time.Second
			} else {
				o.port = n
			}
			break
		}
	}

	if len(o.operands) != 2 {
		return o, errors.New("a host and a port are needed")
	}
	return o, nil
}

// t, n and 4 are what this nc does anyway.
func (o *ncAsked) set(flag rune) error {
	switch flag {
	case 'u':
		o.udp = true
	case 'z':
		o.scan = true
	case 'v':
		o.tell = true
	case 't', 'n', '4':
	default:
		return fmt.Errorf("option -%c is not known here", flag)
	}
	return nil
}

// nc sends its input to a host's port and prints what comes back until the other side ends or is silent for the time
// of -w. It succeeds if it was connected.
func nc(ctx context.Context, c interp.HandlerContext, args []string) error {
	o, err := ncOptions(args)
	if err != nil {
		return err
	}
	dialer := net.Dialer{Timeout: o.limit}

	network := "tcp4"
	switch {
	case o.udp:
		network = "udp4"
		dialer.LocalAddr = &net.UDPAddr{Port: o.port}
	case o.port > 0:
		dialer.LocalAddr = &net.TCPAddr{Port: o.port}
	}

	address := net.JoinHostPort(o.operands[0], o.operands[1])
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	// The line is that of OpenBSD's nc, on standard error.
	if o.tell {
		fmt.Fprintf(c.Stderr, "Connection to %s %s port [%s/*] succeeded!\n", o.operands[0], o.operands[1], network[:3])
	}

	if o.scan {
		return nil
	}
	// The connection is closed when ctx ends, which ends send and receive.
	context.AfterFunc(ctx, func() { conn.Close() })
	go send(conn, c.Stdin)
	return receive(conn, c.Stdout, o.limit)
}

// send says when the input has ended, where the connection can.
func send(conn net.Conn, from io.Reader) {
	if _, err := io.Copy(conn, from); err != nil {
		return // receive ends too, by its limit at the latest
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.CloseWrite()
	}
}

// receive copies what comes until the other side ends or nothing has come for limit; zero waits for ever.
func receive(conn net.Conn, to io.Writer, limit time.Duration) error {
	buf := make([]byte, 64<<10)
	for {
		if limit > 0 {
			if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
				return err
			}
		}
		n, err := conn.Read(buf)
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		default:
			return err
		}
	}
}
