package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"mvdan.cc/sh/v3/interp"
)

// dig asks over the protocol it is told to, goes over to TCP where an answer was cut short, and prints records as zone
// files have them.
func TestDig(t *testing.T) {
	host, port := dnsServer(t)
	call := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := dig(context.Background(), interp.HandlerContext{Stdout: &out},
			append([]string{"@" + host, "-p", port}, args...))
		return out.String(), err
	}

	for _, c := range []struct{ args, want string }{
		{"+notcp +noall +answer +search one.test. A", "one.test.\t30\tIN\tA\t192.0.2.1\n"},
		{"+tcp +noall +answer one.test A", "one.test.\t30\tIN\tA\t192.0.2.2\n"},
		{"+short one.test", "192.0.2.1\n"},
		{"+short long.test", "192.0.2.2\n"},
		{"+short alias.test CNAME", "one.test.\n"},
		{"+short _http._tcp.one.test SRV", "10 20 80 one.test.\n"},
		{"+short -x 192.0.2.7", "7.test.\n"},
		{"+short +tries=1 none.test", ""},
		{"none.test", ";; status: NameError\n"},
	} {
		if out, err := call(strings.Fields(c.args)...); out != c.want || err != nil {
			t.Errorf("dig %s: %q, %v; want %q", c.args, out, err, c.want)
		}
	}

	if out, err := call("+tries=1", "+time=1", "silent.test"); err != interp.ExitStatus(9) ||
		!strings.HasPrefix(out, ";; ") {
		t.Errorf("without an answer: %q, %v", out, err)
	}
	for _, bad := range [][]string{{"+dnssec", "one.test"}, {"-t", "LOC", "one.test"}, {"-b", "one.test"},
		{"-x", "one.test"}, {}} {
		if out, err := call(bad...); err == nil {
			t.Errorf("dig %q gave %q", bad, out)
		}
	}
}

// Suffixes come before a short name as it is and after a longer one, and not at all where they are not asked for.
func TestDigNames(t *testing.T) {
	suffixes := []string{"ns.svc.cluster.local", "svc.cluster.local"}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"short", []string{"short."}},
		{"+search full.", []string{"full."}},
		{"+search short", []string{"short.ns.svc.cluster.local.", "short.svc.cluster.local.", "short."}},
		{"+search a.b", []string{"a.b.", "a.b.ns.svc.cluster.local.", "a.b.svc.cluster.local."}},
	} {
		o, err := digOptions(strings.Fields(c.args))
		if got := o.names(suffixes); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("dig %s asks for %q, %v; want %q", c.args, got, err, c.want)
		}
	}
}

// TestReverseName: an address of either family is the name under which DNS has its reverse.
func TestReverseName(t *testing.T) {
	for address, want := range map[string]string{
		"10.96.0.10":  "10.0.96.10.in-addr.arpa.",
		"2001:db8::1": "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.",
	} {
		if got, err := reverseName(address); got != want || err != nil {
			t.Errorf("%s is %s, %v", address, got, err)
		}
	}
}

// What the host says of DNS can be read: of a host without a network it may be nothing.
func TestDNSOfHost(t *testing.T) {
	if servers, err := dnsServers(); err != nil {
		t.Errorf("servers: %q, %v", servers, err)
	}
	if suffixes, err := dnsSuffixes(); err != nil {
		t.Errorf("suffixes: %q, %v", suffixes, err)
	}
}

// dnsServer answers on one port of both protocols: with 192.0.2.1 over UDP and 192.0.2.2 over TCP, where a name does
// not ask for something else.
func dnsServer(t *testing.T) (host, port string) {
	t.Helper()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	tcp, err := net.Listen("tcp4", udp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close() })

	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := dnsAnswer(buf[:n], false); answer != nil {
				udp.WriteTo(answer, from)
			}
		}
	}()

	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			head := make([]byte, 2)
			if _, err := io.ReadFull(conn, head); err == nil {
				packet := make([]byte, binary.BigEndian.Uint16(head))
				if _, err := io.ReadFull(conn, packet); err == nil {
					answer := dnsAnswer(packet, true)
					conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
				}
			}
			conn.Close()
		}
	}()

	host, port, _ = net.SplitHostPort(udp.LocalAddr().String())
	return host, port
}

// dnsAnswer is the server's answer to a packet; nil: it stays silent.
func dnsAnswer(packet []byte, tcp bool) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response = true
	var body dnsmessage.ResourceBody = &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}
	if tcp {
		body = &dnsmessage.AResource{A: [4]byte{192, 0, 2, 2}}
	}

	switch name := q.Name.String(); {
	case name == "silent.test.":
		return nil
	case name == "none.test.":
		m.RCode = dnsmessage.RCodeNameError
	case name == "long.test." && !tcp:
		m.Truncated = true
	case q.Type == dnsmessage.TypeCNAME:
		body = &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("one.test.")}
	case q.Type == dnsmessage.TypeSRV:
		body = &dnsmessage.SRVResource{Priority: 10, Weight: 20, Port: 80, Target: dnsmessage.MustNewName("one.test.")}
	case name == "7.2.0.192.in-addr.arpa.":
		body = &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName("7.test.")}
	}

	if m.RCode == dnsmessage.RCodeSuccess && !m.Truncated {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 30},
			Body: body}}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}

	return answer
}
