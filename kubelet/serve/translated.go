package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net"
	"net/http"
)

// doubled is how the text of a stream's error begins when a runtime and Kubernetes' translator of WebSocket to SPDY
// (k8s.io/apiserver pkg/util/proxy, StreamTranslatorHandler) have both made an internal error of it. Over SPDY clients
// see one prefix, and so they do here.
const doubled, single = `"message":"Internal error occurred: Internal error occurred: `,
	`"message":"Internal error occurred: `

// onePrefix is a ResponseWriter for the translator. What it writes after the connection was taken over are frames of
// WebSocket; the text of an error gets one prefix in place of two.
type onePrefix struct{ http.ResponseWriter }

// Hijack takes over the connection.
func (w onePrefix) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	to := onePrefixConn{conn}
	return to, bufio.NewReadWriter(buf.Reader, bufio.NewWriter(to)), nil
}

// onePrefixConn changes frames on their way to the client.
type onePrefixConn struct{ net.Conn }

// Write writes what is flushed at once: a frame, if it is short.
func (c onePrefixConn) Write(p []byte) (int, error) {
	changed, is := withOnePrefix(p)
	if !is {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(changed); err != nil {
		return 0, err
	}
	return len(p), nil
}

// errorChannel is the first byte of the messages that carry the status of a stream (k8s.io/apimachinery
// pkg/util/remotecommand).
const errorChannel = 3

// withOnePrefix returns a frame of WebSocket (RFC 6455, 5.2) with one prefix. is reports whether p is one whole frame,
// of a server, with two.
func withOnePrefix(p []byte) (frame []byte, is bool) {
	if len(p) < 4 {
		return nil, false
	}
	// A length of 126 says that the length is in the next two bytes; the eight-byte form is not
	// changed.
	head, size := 2, int(p[1])
	if size == 126 {
		head = 4
		size = int(binary.BigEndian.Uint16(p[2:]))
	}
	if size > 1<<16 || len(p) != head+size || size == 0 || p[head] != errorChannel ||
		!bytes.Contains(p, []byte(doubled)) {
		return nil, false
	}

	// The shorter payload may need the shorter form of the length.
	payload := bytes.Replace(p[head:], []byte(doubled), []byte(single), 1)
	frame = []byte{p[0]}
	if len(payload) < 126 {
		frame = append(frame, byte(len(payload)))
	} else {
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(len(payload)))
	}
	return append(frame, payload...), true
}
