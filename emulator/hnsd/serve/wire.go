package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
)

// The frames are drawn in emulator/dll/wire.h.
const (
	opHNSCall = 100
	opHello   = 1000
	maxFrame  = 64 << 20
	noText    = 0xffffffff
)

// request is one call as it came in.
type request struct {
	op     uint32
	handle uint64
	guid   string
	text   [3]string
}

// answer of a call; a nil text is NULL to the caller.
type answer struct {
	result uint32
	handle uint64
	text   [2]*string
}

var errFrame = errors.New("malformed frame")

func readRequest(r io.Reader) (request, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return request{}, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n < 40 || n > maxFrame {
		return request{}, errFrame
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return request{}, err
	}
	return parseRequest(frame)
}

func parseRequest(frame []byte) (request, error) {
	q := request{op: binary.LittleEndian.Uint32(frame), handle: binary.LittleEndian.Uint64(frame[4:]), guid: guidText(frame[12:28])}
	rest := frame[28:]
	for i := range q.text {
		if len(rest) < 4 {
			return q, errFrame
		}
		n := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		if n%2 != 0 || uint64(n) > uint64(len(rest)) {
			return q, errFrame
		}
		q.text[i] = decodeText(rest[:n])
		rest = rest[n:]
	}
	return q, nil
}

func (a answer) frame() []byte {
	frame := make([]byte, 4, 64)
	frame = binary.LittleEndian.AppendUint32(frame, a.result)
	frame = binary.LittleEndian.AppendUint64(frame, a.handle)
	for _, t := range a.text {
		if t == nil {
			frame = binary.LittleEndian.AppendUint32(frame, noText)
			continue
		}
		data := encodeText(*t)
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(data)))
		frame = append(frame, data...)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// guidText prints a GUID; its first three groups are little-endian in memory.
func guidText(b []byte) string {
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint16(b[4:]),
		binary.LittleEndian.Uint16(b[6:]), b[8:10], b[10:16])
}

func decodeText(b []byte) string {
	u := make([]uint16, len(b)/2)
	for i := range u {
		u[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(u))
}

func encodeText(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}
