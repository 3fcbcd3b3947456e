package wire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// MaxFrame bounds a request and an answer, in bytes.
const MaxFrame = 64 << 20

// noText stands for the length of a text that is NULL.
const noText = 0xffffffff

// Lengths of the fixed parts of the two frames, and where they leave room for texts.
const (
	requestHead = 4 + 8 + 16
	answerHead  = 4 + 8
)

// ErrFrame is the cause when a frame is not one of this protocol.
var ErrFrame = errors.New("malformed frame")

// Request is one call.
type Request struct {
	Op     Op
	Handle uint64
	GUID   string // "" is all zeros
	Text   [3]string
}

// Answer is what a call is answered, or one event of a stream.
type Answer struct {
	Result uint32 // HRESULT; of an event, its number
	Handle uint64
	Text   [2]*string // nil is NULL: first what was asked for, then the error record
}

// Failed reports whether the result is a failing HRESULT.
func (a Answer) Failed() bool { return a.Result&0x80000000 != 0 }

// ReadRequest reads the next request from a program.
func ReadRequest(r io.Reader) (Request, error) {
	frame, err := readFrame(r, requestHead+3*4)
	if err != nil {
		return Request{}, err
	}

	q := Request{Op: Op(binary.LittleEndian.Uint32(frame)), Handle: binary.LittleEndian.Uint64(frame[4:]),
		GUID: guidText(frame[12:requestHead])}
	rest := frame[requestHead:]
	for i := range q.Text {
		var text *string
		if text, rest, err = takeText(rest); err != nil || text == nil {
			return q, ErrFrame
		}
		q.Text[i] = *text
	}
	return q, nil
}

// ReadAnswer reads the answer to a request, or the next event of a stream.
func ReadAnswer(r io.Reader) (Answer, error) {
	frame, err := readFrame(r, answerHead+2*4)
	if err != nil {
		return Answer{}, err
	}

	a := Answer{Result: binary.LittleEndian.Uint32(frame), Handle: binary.LittleEndian.Uint64(frame[4:])}
	rest := frame[answerHead:]
	for i := range a.Text {
		if a.Text[i], rest, err = takeText(rest); err != nil {
			return a, err
		}
	}
	return a, nil
}

// readFrame reads what follows a length, which is at least atLeast.
func readFrame(r io.Reader, atLeast uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n < atLeast || n > MaxFrame {
		return nil, ErrFrame
	}

	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	return frame, nil
}

// takeText returns the text at the beginning of data, nil if it is NULL, and what follows it.
func takeText(data []byte) (text *string, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, ErrFrame
	}
	n := binary.LittleEndian.Uint32(data)
	data = data[4:]
	if n == noText {
		return nil, data, nil
	}
	if n%2 != 0 || uint64(n) > uint64(len(data)) {
		return nil, nil, ErrFrame
	}

	s := decodeText(data[:n])
	return &s, data[n:], nil
}

// Frame returns the request as it is sent. A GUID that is not valid becomes all zeros.
func (q Request) Frame() []byte {
	frame := binary.LittleEndian.AppendUint32(make([]byte, 4, 64), uint32(q.Op))
	frame = binary.LittleEndian.AppendUint64(frame, q.Handle)
	frame = append(frame, guidBytes(q.GUID)...)
	for i := range q.Text {
		frame = appendText(frame, &q.Text[i])
	}
	return withLength(frame)
}

// Frame returns the answer as it is sent.
func (a Answer) Frame() []byte {
	frame := binary.LittleEndian.AppendUint32(make([]byte, 4, 64), a.Result)
	frame = binary.LittleEndian.AppendUint64(frame, a.Handle)
	for _, text := range a.Text {
		frame = appendText(frame, text)
	}
	return withLength(frame)
}

// withLength fills in the length, for which the first four bytes are left free.
func withLength(frame []byte) []byte {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func appendText(frame []byte, text *string) []byte {
	if text == nil {
		return binary.LittleEndian.AppendUint32(frame, noText)
	}
	data := encodeText(*text)
	return append(binary.LittleEndian.AppendUint32(frame, uint32(len(data))), data...)
}

// guidText prints a GUID; its first three groups are little-endian in memory.
func guidText(b []byte) string {
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint16(b[4:]),
		binary.LittleEndian.Uint16(b[6:]), b[8:10], b[10:16])
}

// guidBytes is the reverse of guidText.
func guidBytes(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		return make([]byte, 16)
	}
	b[0], b[1], b[2], b[3] = b[3], b[2], b[1], b[0]
	b[4], b[5] = b[5], b[4]
	b[6], b[7] = b[7], b[6]
	return b
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
