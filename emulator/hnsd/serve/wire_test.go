package serve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// frameOf is a request as a program writes it.
func frameOf(op uint32, text ...string) []byte {
	frame := make([]byte, 4, 64)
	frame = binary.LittleEndian.AppendUint32(frame, op)
	frame = binary.LittleEndian.AppendUint64(frame, 7)
	frame = append(frame, "0123456789abcdef"...)
	for _, t := range text {
		data := encodeText(t)
		frame = append(binary.LittleEndian.AppendUint32(frame, uint32(len(data))), data...)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// FuzzRequest: whatever a program writes to the pipe, it is refused, or a request with texts that are text and a GUID that is
// one; an answer with the same texts can be read again.
func FuzzRequest(f *testing.F) {
	f.Add(frameOf(opHello, "a.exe", "", "{}"))
	f.Add(frameOf(opHNSCall, "GET", "/networks", "\U0001F600\xff"))
	f.Add(frameOf(1, "x", "y"))
	f.Add([]byte{0xff, 0xff, 0xff, 0x03})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4 && binary.LittleEndian.Uint32(data) > 1<<20 {
			return // it is waited for, in a buffer of its size
		}
		q, err := readRequest(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			return
		}
		if len(q.guid) != 36 || strings.Count(q.guid, "-") != 4 {
			t.Fatalf("GUID %q", q.guid)
		}
		total := 0
		for _, text := range q.text {
			if total += len(encodeText(text)); !utf8.ValidString(text) || decodeText(encodeText(text)) != text {
				t.Fatalf("text %q", text)
			}
		}
		frame := answer{text: [2]*string{&q.text[0], nil}}.frame()
		if total > len(data) || int(binary.LittleEndian.Uint32(frame)) != len(frame)-4 || decodeText(frame[20:20+len(encodeText(q.text[0]))]) != q.text[0] {
			t.Fatalf("%q is answered with %x", q.text, frame)
		}
	})
}
