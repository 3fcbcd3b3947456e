package proxylab

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
	"unicode/utf16"
)

// Kind of an HNS object, by its number on the wire (emulator/dll/wire.h).
type Kind uint32

// The kinds.
const (
	Network Kind = iota
	Endpoint
	Namespace
	LoadBalancer
	SDNRoute
)

// functions of a kind, and the first call of a connection.
const (
	opCreate = 1
	opOpen   = 2
	opModify = 3
	opQuery  = 4
	opDelete = 5
	opClose  = 6
	opHello  = 1000
)

// HRESULT of a failed call.
type HRESULT struct {
	Code uint32
	Text string // the error record
}

func (e *HRESULT) Error() string { return fmt.Sprintf("%#x %s", e.Code, e.Text) }

// wireConn speaks as the DLLs do.
type wireConn struct{ c net.Conn }

type wireAnswer struct {
	handle uint64
	text   string
}

func openWire(ctx context.Context, netns, addr, program string) (*wireConn, error) {
	c, err := dialIn(netns)(ctx, "tcp4", addr)
	if err != nil {
		return nil, fmt.Errorf("reaching HNS: %w", err)
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // an open connection takes deadlines
	w := &wireConn{c}
	if _, err := c.Write(wireFrame(opHello, 0, "", program, "", "")); err != nil {
		c.Close()
		return nil, err
	}
	return w, nil
}

func (w *wireConn) call(op uint32, handle uint64, guid string, text ...string) (wireAnswer, error) {
	for len(text) < 3 {
		text = append(text, "")
	}
	if _, err := w.c.Write(wireFrame(op, handle, guid, text[0], text[1], text[2])); err != nil {
		return wireAnswer{}, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(w.c, head); err != nil {
		return wireAnswer{}, err
	}
	rest := make([]byte, binary.LittleEndian.Uint32(head))
	if _, err := io.ReadFull(w.c, rest); err != nil {
		return wireAnswer{}, err
	}
	if len(rest) < 12 {
		return wireAnswer{}, io.ErrUnexpectedEOF
	}
	code := binary.LittleEndian.Uint32(rest)
	a := wireAnswer{handle: binary.LittleEndian.Uint64(rest[4:])}
	texts := [2]string{}
	rest = rest[12:]
	for i := range texts {
		if len(rest) < 4 {
			return a, io.ErrUnexpectedEOF
		}
		n := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		if n == 0xffffffff {
			continue
		}
		u := make([]uint16, n/2)
		for j := range u {
			u[j] = binary.LittleEndian.Uint16(rest[2*j:])
		}
		texts[i], rest = string(utf16.Decode(u)), rest[n:]
	}
	a.text = texts[0]
	if code&0x80000000 != 0 {
		return a, &HRESULT{code, strings.TrimSpace(texts[0] + texts[1])}
	}
	return a, nil
}

func wireFrame(op uint32, handle uint64, guid string, text ...string) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 4), op)
	b = binary.LittleEndian.AppendUint64(b, handle)
	b = append(b, guidBytes(guid)...)
	for _, s := range text {
		u := utf16.Encode([]rune(s))
		b = binary.LittleEndian.AppendUint32(b, uint32(2*len(u)))
		for _, x := range u {
			b = binary.LittleEndian.AppendUint16(b, x)
		}
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// guidBytes has the first three groups little-endian; "" is all zero.
func guidBytes(id string) []byte {
	out := make([]byte, 16)
	hex := strings.ReplaceAll(id, "-", "")
	for i := range min(16, len(hex)/2) {
		_, _ = fmt.Sscanf(hex[2*i:2*i+2], "%02x", &out[i]) // ids come from HNS
	}
	out[0], out[1], out[2], out[3] = out[3], out[2], out[1], out[0]
	out[4], out[5] = out[5], out[4]
	out[6], out[7] = out[7], out[6]
	return out
}

// Create makes an object and gives its id and document. parent is the network of an endpoint, else "".
func (h *HNS) Create(ctx context.Context, k Kind, parent string, doc any) (id string, err error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return "", err
	}
	w, err := openWire(ctx, h.netns, hnsAddr, h.Program)
	if err != nil {
		return "", err
	}
	defer w.c.Close()
	var network wireAnswer
	if parent != "" {
		if network, err = w.call(uint32(10*Network+opOpen), 0, parent); err != nil {
			return "", err
		}
	}
	made, err := w.call(uint32(10*k+opCreate), network.handle, "", string(data))
	if err != nil {
		return "", err
	}
	read, err := w.call(uint32(10*k+opQuery), made.handle, "")
	if err != nil {
		return "", err
	}
	var have struct{ ID string }
	err = json.Unmarshal([]byte(read.text), &have)
	return have.ID, err
}

// Modify changes an object.
func (h *HNS) Modify(ctx context.Context, k Kind, id string, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w, err := openWire(ctx, h.netns, hnsAddr, h.Program)
	if err != nil {
		return err
	}
	defer w.c.Close()
	o, err := w.call(uint32(10*k+opOpen), 0, id)
	if err != nil {
		return err
	}
	_, err = w.call(uint32(10*k+opModify), o.handle, "", string(data))
	return err
}

// Delete removes an object, as another program of the host would.
func (h *HNS) Delete(ctx context.Context, k Kind, id string) error {
	w, err := openWire(ctx, h.netns, hnsAddr, h.Program)
	if err != nil {
		return err
	}
	defer w.c.Close()
	_, err = w.call(uint32(10*k+opDelete), 0, id)
	return err
}
