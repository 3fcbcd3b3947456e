package lab

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// pgClient is a connection to PostgreSQL by its protocol 3.0, with as much of that as a test needs: a user without a
// password, and simple queries (PostgreSQL, "Frontend/Backend Protocol", "Message Formats").
type pgClient struct {
	net.Conn
	in *bufio.Reader
}

const pgWait = 30 * time.Second // for a connection, and for each query

// pgDial logs on as the user postgres.
func pgDial(address string) (*pgClient, error) {
	conn, err := net.DialTimeout("tcp4", address, pgWait)
	if err != nil {
		return nil, err
	}
	c := &pgClient{conn, bufio.NewReader(conn)}
	const version = 3 << 16
	hello := binary.BigEndian.AppendUint32(nil, version)
	hello = append(hello, "user\x00postgres\x00database\x00postgres\x00\x00"...)
	err = c.send(nil, hello)
	if err == nil {
		_, err = c.answer()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// query runs commands of SQL, and returns the rows of all: columns apart by spaces, rows by lines.
func (c *pgClient) query(sql string) (string, error) {
	if err := c.send([]byte{'Q'}, append([]byte(sql), 0)); err != nil {
		return "", err
	}
	return c.answer()
}

// send sends a message of a kind; the first one of a connection has none.
func (c *pgClient) send(kind, body []byte) error {
	const lengthBytes = 4
	if err := c.SetDeadline(time.Now().Add(pgWait)); err != nil {
		return err
	}
	message := binary.BigEndian.AppendUint32(kind, uint32(lengthBytes+len(body)))
	_, err := c.Write(append(message, body...))
	return err
}

// answer reads until the server waits for the next query.
func (c *pgClient) answer() (string, error) {
	var rows []string
	var failed error
	for {
		kind, body, err := c.message()
		if err != nil {
			return "", err
		}
		switch kind {
		case 'D':
			rows = append(rows, row(body))
		case 'E':
			failed = fmt.Errorf("PostgreSQL: %s", bytes.ReplaceAll(body, []byte{0}, []byte(" ")))
		case 'R':
			if code := binary.BigEndian.Uint32(body); code != 0 {
				return "", fmt.Errorf("PostgreSQL wants a password of kind %d", code)
			}
		case 'Z':
			return strings.Join(rows, "\n"), failed
		}
		if failed != nil && kind == 'E' && bytes.HasPrefix(body, []byte("SFATAL")) {
			return "", failed
		}
	}
}

func (c *pgClient) message() (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > 1<<20 {
		return 0, nil, fmt.Errorf("a message %c of %d bytes", head[0], length)
	}
	body = make([]byte, length-4)
	_, err = io.ReadFull(c.in, body)
	return head[0], body, err
}

// row reads the columns of a message DataRow: how many, and for each its length and its bytes.
func row(body []byte) string {
	var columns []string
	for rest := body[2:]; len(rest) >= 4; {
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n < 0 || int(n) > len(rest) { // NULL has the length -1
			columns = append(columns, "NULL")
			continue
		}
		columns = append(columns, string(rest[:n]))
		rest = rest[n:]
	}
	return strings.Join(columns, " ")
}
