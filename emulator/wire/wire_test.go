package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"porthole.dev/porthole/emulator/hnsd"
)

var update = flag.Bool("update", false, "rewrite emulator/dll/ops.h")

// TestHeader fails when the C header of the DLLs is not the one of these numbers: go generate ./emulator/wire.
func TestHeader(t *testing.T) {
	file := filepath.Join("..", "dll", "ops.h")
	if *update {
		if err := os.WriteFile(file, []byte(Header()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != Header() {
		t.Errorf("%s is stale: go generate ./emulator/wire", file)
	}
}

// TestNumbers: the numbers are part of files and programs that outlive a build of ours: journals and DLLs of hosts.
func TestNumbers(t *testing.T) {
	for op, want := range map[Op]Op{
		On(hnsd.Network, Enumerate): 0, On(hnsd.Endpoint, Create): 11, On(hnsd.Namespace, Open): 22,
		On(hnsd.LoadBalancer, Modify): 33,
		On(hnsd.Route, Query):         44, On(hnsd.Network, Delete): 5, On(hnsd.Route, Close): 46,
		HNSCall: 100, Route: 101, Events: 102, Notify: 103, Address: 104, Interface: 105, Hello: 1000,
	} {
		if op != want {
			t.Errorf("got %d, want %d", op, want)
		}
	}
}

// TestObject: what On makes, Object takes apart, and no other operation is taken for one on an object.
func TestObject(t *testing.T) {
	on := map[Op]bool{}
	for k := range hnsd.Kinds {
		for f := range functions {
			on[On(k, f)] = true
			if kind, fn, ok := On(k, f).Object(); !ok || kind != k || fn != f {
				t.Errorf("%s of %s became %s of %s, %v", f, k, fn, kind, ok)
			}
		}
	}
	for op := range Op(2000) {
		if _, _, ok := op.Object(); ok != on[op] {
			t.Errorf("operation %d: on an object %v, want %v", op, ok, on[op])
		}
	}
	if !On(hnsd.Route, Create).Calls(Create) || On(hnsd.Route, Create).Calls(Open) || HNSCall.Calls(Enumerate) {
		t.Error("Calls confuses functions")
	}
}

// TestConn: a program's calls arrive as they were made, and its answers too; a failure is one.
func TestConn(t *testing.T) {
	var wire bytes.Buffer
	c, err := NewConn(&wire, 7, "kube-proxy.exe")
	if err != nil {
		t.Fatal(err)
	}
	hello, err := ReadRequest(&wire)
	if err != nil ||
		hello != (Request{Op: Hello, Handle: 7, GUID: guidText(make([]byte, 16)), Text: [3]string{"kube-proxy.exe"}}) {
		t.Errorf("hello %+v, %v", hello, err)
	}

	q := Request{Op: On(hnsd.Endpoint, Create), Handle: LinkHandle(3, 25), GUID: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
		Text: [3]string{"{}", "", "ü😀"}}
	if err := c.Send(q); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadRequest(&wire); err != nil || got != q {
		t.Errorf("got %+v, %v, want %+v", got, err, q)
	}
	if index, metric := Link(q.Handle); index != 3 || metric != 25 {
		t.Errorf("link %d, metric %d", index, metric)
	}

	text, record := "{}", `{"Success":false} `
	wire.Write(Answer{Handle: 8, Text: [2]*string{&text}}.Frame())
	if a, err := c.Receive(); err != nil || a.Failed() || a.Handle != 8 || *a.Text[0] != text || a.Text[1] != nil {
		t.Errorf("answer %+v, %v", a, err)
	}
	failing := struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(Answer{Result: 0x80070490, Text: [2]*string{nil, &record}}.Frame()), io.Discard}
	_, _, err = (&Conn{failing}).Call(q)
	var failure *HRESULT
	if !errors.As(err, &failure) || failure.Code != 0x80070490 || failure.Text != strings.TrimSpace(record) {
		t.Errorf("failure %v", err)
	}
}

// FuzzRequest: whatever a program sends, it is refused, or is a request with texts that are text and a GUID that is
// valid; an answer with the same texts can be read again.
func FuzzRequest(f *testing.F) {
	f.Add(Request{Op: Hello, Text: [3]string{"a.exe", "", "{}"}}.Frame())
	f.Add(Request{Op: HNSCall, GUID: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
		Text: [3]string{"GET", "/networks", "\U0001F600\xff"}}.Frame())
	f.Add(Request{Op: 1, Text: [3]string{"x", "y"}}.Frame()[:40])
	f.Add([]byte{0xff, 0xff, 0xff, 0x03})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4 && binary.LittleEndian.Uint32(data) > 1<<20 {
			return // the buffer would be that large
		}
		q, err := ReadRequest(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			return
		}

		if len(q.GUID) != 36 || strings.Count(q.GUID, "-") != 4 {
			t.Fatalf("GUID %q", q.GUID)
		}
		for _, text := range q.Text {
			if !utf8.ValidString(text) {
				t.Fatalf("text %q", text)
			}
		}
		if again, err := ReadRequest(bytes.NewReader(q.Frame())); err != nil || again != q {
			t.Fatalf("%+v became %+v, %v", q, again, err)
		}
		answer := Answer{Result: 1, Handle: q.Handle, Text: [2]*string{&q.Text[0], nil}}
		if a, err := ReadAnswer(bytes.NewReader(answer.Frame())); err != nil || *a.Text[0] != q.Text[0] ||
			a.Text[1] != nil || a.Handle != q.Handle {
			t.Fatalf("%q is answered with %+v, %v", q.Text, a, err)
		}
	})
}
