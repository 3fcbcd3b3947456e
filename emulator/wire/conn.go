package wire

import (
	"fmt"
	"io"
	"strings"
)

// Conn is a program's end of a connection to HNS. It is not safe for concurrent use, as a thread's connection is not
// either.
type Conn struct{ rw io.ReadWriter }

// HRESULT is the error of a call that HNS answered with a failure.
type HRESULT struct {
	Code uint32
	Text string // the error record; "" if there is none
}

func (e *HRESULT) Error() string { return fmt.Sprintf("%#x %s", e.Code, e.Text) }

// NewConn begins a connection as a program of that process id and file name.
func NewConn(rw io.ReadWriter, process uint64, program string) (*Conn, error) {
	c := &Conn{rw}
	return c, c.Send(Request{Op: Hello, Handle: process, Text: [3]string{program}})
}

// Send sends a request and does not wait for its answer.
func (c *Conn) Send(q Request) error {
	_, err := c.rw.Write(q.Frame())
	return err
}

// Receive waits for the answer to a request that was sent, or for the next event of a stream.
func (c *Conn) Receive() (Answer, error) { return ReadAnswer(c.rw) }

// Call makes one call and returns its handle and its first text. A failure of HNS is an *HRESULT.
func (c *Conn) Call(q Request) (handle uint64, text string, err error) {
	if err := c.Send(q); err != nil {
		return 0, "", err
	}
	a, err := c.Receive()
	if err != nil {
		return 0, "", err
	}

	if a.Text[0] != nil {
		text = *a.Text[0]
	}
	if !a.Failed() {
		return a.Handle, text, nil
	}
	failure := &HRESULT{Code: a.Result, Text: text}
	if a.Text[1] != nil {
		failure.Text += *a.Text[1]
	}
	failure.Text = strings.TrimSpace(failure.Text)
	return a.Handle, text, failure
}
