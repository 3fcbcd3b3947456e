package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// serveDNS answers for one name with 192.0.2.7, with its name for that address, and says of others that they do not
// exist.
func serveDNS(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buffer := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if a := answerTo(slices.Clone(buffer[:n])); a != nil {
				_, _ = conn.WriteTo(a, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// answerTo answers a query of one question (RFC 1035, section 4).
func answerTo(q []byte) []byte {
	var labels []string
	at := 12
	for at < len(q) && q[at] != 0 {
		labels = append(labels, strings.ToLower(string(q[at+1:at+1+int(q[at])])))
		at += 1 + int(q[at])
	}
	end := at + 5
	kind, name := binary.BigEndian.Uint16(q[at+1:]), strings.Join(labels, ".")
	if name == "silent.test" {
		return nil
	}

	out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	var data []byte
	switch {
	case name == "app.test" && kind == 1:
		data = []byte{192, 0, 2, 7}
	case name == "app.test" && kind == 16:
		data = []byte("\x05hello")
	case name == "7.2.0.192.in-addr.arpa" && kind == 12:
		data = []byte("\x03app\x04test\x00")
	case name == "app.test":
		return out // no data of this kind
	default:
		out[3] |= 3
		return out
	}
	out[7] = 1
	out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 60, 0, byte(len(data)))
	return append(out, data...)
}

// TestLookup asks a server for what it has and for what it has not.
func TestLookup(t *testing.T) {
	server := serveDNS(t)
	for line, want := range map[string]string{
		"app.test.":               "Server:  UnKnown\nAddress:  127.0.0.1\n\nName:    app.test\nAddress:  192.0.2.7\n\n|",
		"-type=A app.test.":       "Server:  UnKnown\nAddress:  127.0.0.1\n\nName:    app.test\nAddress:  192.0.2.7\n\n|",
		"-q=txt app.test.":        "Server:  UnKnown\nAddress:  127.0.0.1\n\napp.test.\ttext =\n\n\t\"hello\"\n\n|",
		"192.0.2.7":               "Server:  UnKnown\nAddress:  127.0.0.1\n\nName:    app.test\nAddress:  192.0.2.7\n\n|",
		"absent.test.":            "Server:  UnKnown\nAddress:  127.0.0.1\n\n|*** UnKnown can't find absent.test.: Non-existent domain\n",
		"-type=mx app.test.":      "Server:  UnKnown\nAddress:  127.0.0.1\n\n|*** UnKnown can't find app.test.: Non-existent domain\n",
		"-timeout=1 silent.test.": "Server:  UnKnown\nAddress:  127.0.0.1\n\n|DNS request timed out.\n*** Request to UnKnown timed-out\n",
	} {
		q, err := parse(append(strings.Fields(line), server))
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		begin := time.Now()
		ok := q.run(t.Context(), &out, &errs)
		got := strings.ReplaceAll(out.String()+"|"+errs.String(), "\r\n", "\n")
		if got != want || ok != strings.HasSuffix(want, "|") || time.Since(begin) > 30*time.Second {
			t.Errorf("%s: %v, %q; want %q", line, ok, got, want)
		}
	}
}

// TestParse: what is refused.
func TestParse(t *testing.T) {
	for _, line := range []string{"", "a b c", "-what x", "-type=LOC x", "-timeout=x y", "-type=A"} {
		if q, err := parse(strings.Fields(line)); err == nil {
			t.Errorf("%q: %+v", line, q)
		}
	}
}
