package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/interp"
)

// nc carries its input there and the answer back, over both protocols, and fails where nobody listens.
func TestNC(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() { io.WriteString(conn, "tcp "); io.Copy(conn, conn); conn.Close() }()
		}
	}()

	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()

	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			udp.WriteTo(append([]byte("udp "), buf[:n]...), from)
		}
	}()

	call := func(args ...string) (string, error) {
		var out, told bytes.Buffer
		err := nc(context.Background(),
			interp.HandlerContext{Stdin: strings.NewReader("word\n"), Stdout: &out, Stderr: &told}, args)
		return out.String(), err
	}
	host, port, _ := net.SplitHostPort(tcp.Addr().String())
	if out, err := call("-v", "-t", "-w", "2", host, port); out != "tcp word\n" || err != nil {
		t.Errorf("TCP gave %q, %v", out, err)
	}

	if out, err := call("-vzw2", host, port); out != "" || err != nil {
		t.Errorf("a look at the port gave %q, %v", out, err)
	}
	_, udpPort, _ := net.SplitHostPort(udp.LocalAddr().String())
	if out, err := call("-u", "-w", "1", host, udpPort); out != "udp word\n" || err != nil {
		t.Errorf("UDP gave %q, %v", out, err)
	}
	tcp.Close()
	if out, err := call("-w", "2", host, port); err == nil {
		t.Errorf("a closed port gave %q", out)
	}
	if _, err := call("-x", host, port); err == nil {
		t.Error("an unknown option is taken")
	}
}
