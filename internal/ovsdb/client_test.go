package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// server is the other end of a client's connection. It answers each request with what answers has for the method.
type server struct {
	conn    net.Conn
	answers map[string]string // a message; %s stands for the id of the request
	asked   chan string       // methods of the client's requests
	echoed  chan string       // results of the client's own answers
}

// connect returns a client of a server.
func connect(t *testing.T, answers map[string]string) (*Client, *server) {
	t.Helper()
	near, far := net.Pipe()
	c, s := newClient("test", near), &server{conn: far, answers: answers, asked: make(chan string, 16),
		echoed: make(chan string, 1)}
	t.Cleanup(c.Close)
	go s.serve()
	return c, s
}

func (s *server) serve() {
	in := json.NewDecoder(s.conn)
	for {
		var m message
		if in.Decode(&m) != nil {
			return
		}
		if m.Method == "" {
			s.echoed <- string(m.Result)
			continue
		}
		s.asked <- m.Method
		if answer := s.answers[m.Method]; answer != "" {
			fmt.Fprintf(s.conn, answer, m.ID)
		}
	}
}

func (s *server) send(t *testing.T, text string) {
	t.Helper()
	if _, err := s.conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// within returns a context for one call.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestTransact: a refused operation and a failed commit are errors that name what failed; a call that the server
// refuses is another.
func TestTransact(t *testing.T) {
	ops := []Op{Insert("Port", "p", map[string]any{"name": "x"}), Delete("Bridge", nil)}
	refusal := `{"error":"constraint violation","details":"x is there"}`
	for name, c := range map[string]struct{ answer, want string }{
		"done": {`{"id":%s,"error":null,"result":[{"uuid":["uuid","u1"]},{"count":2}]}`, ""},
		"first refused": {`{"id":%s,"error":null,"result":[` + refusal + `,null]}`,
			"refuses to insert Port: constraint violation (x is there)"},
		"second refused": {`{"id":%s,"error":null,"result":[{},` + refusal + `]}`,
			"refuses to delete Bridge: constraint violation"},
		"commit failed": {`{"id":%s,"error":null,"result":[{},{},` + refusal + `]}`,
			"refuses the transaction: constraint violation"},
		"too few results":   {`{"id":%s,"error":null,"result":[{}]}`, "answers 1 of 2 operations"},
		"unknown database":  {`{"id":%s,"error":"unknown database","result":null}`, "unknown database"},
		"not a list":        {`{"id":%s,"error":null,"result":"x"}`, "reading the answer"},
		"not a JSON-RPC id": {`{"id":"x","error":null,"result":[]}%.0s`, `an answer has the id "x"`},
	} {
		client, _ := connect(t, map[string]string{"transact": c.answer})
		results, err := client.Transact(within(t), "db", ops...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}

		var refused *Error
		if errors.As(err, &refused) != strings.Contains(c.want, "refuses") {
			t.Errorf("%s: %v is of type %T", name, err, err)
		}
		if name == "done" && (results[0].UUID() != "u1" || results[1].Count != 2) {
			t.Errorf("results %+v", results)
		}
	}
}

// TestMonitor: inserted, changed and deleted rows reach the cache, an update that follows its answer at once included.
func TestMonitor(t *testing.T) {
	const first = `{"id":%s,"error":null,"result":{"T":{"a":{"new":{"name":"one"}},"b":{"new":{"name":"two"}}}}}`
	const update = `{"id":null,"method":"update","params":["monitor1",{"T":{"a":{"old":{"name":"one"},"new":{"name":"uno"}},"b":{"old":{"name":"two"}},"c":{"new":{"name":"three"}}}}]}`
	client, s := connect(t, map[string]string{"monitor": first + update})
	changed := make(chan struct{}, 2)
	cache, err := client.Monitor(within(t), "db", map[string][]string{"T": {"name"}}, func() { changed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	<-changed
	rows := cache.Rows("T")
	if len(rows) != 2 || rows["a"].Text("name") != "uno" || rows["c"].Text("name") != "three" {
		t.Errorf("rows %v", rows)
	}

	s.send(t, `{"id":null,"method":"update","params":["monitor1",{"T":{"a":{"old":{"name":"uno"}}}}]}`)
	<-changed
	if now := cache.Tables()["T"]; len(now) != 1 || len(rows) != 2 {
		t.Errorf("rows %v, and %v of before", now, rows)
	}
	s.send(t, `{"id":null,"method":"update","params":["monitor1"]}`)
	<-client.Done()
	if err := client.Err(); err == nil || !strings.Contains(err.Error(), "an update has the parameters") {
		t.Errorf("after an update without rows: %v", err)
	}
}

// TestLock: the answer and the later notifications tell who holds a lock.
func TestLock(t *testing.T) {
	client, s := connect(t, map[string]string{"lock": `{"id":%s,"error":null,"result":{"locked":false}}`})
	now := make(chan bool, 1)
	held, err := client.Lock(within(t), "l", func(held bool) { now <- held })
	if err != nil || held {
		t.Fatalf("held %t, %v; want a lock of somebody else", held, err)
	}
	for method, want := range map[string]bool{"locked": true, "stolen": false} {
		s.send(t, `{"id":null,"method":"`+method+`","params":["l"]}`)
		if got := <-now; got != want {
			t.Errorf("after %s: held %t", method, got)
		}
	}
}

// TestEcho: the server's probe is answered, or it would end the connection.
func TestEcho(t *testing.T) {
	_, s := connect(t, nil)
	s.send(t, `{"id":"echo","method":"echo","params":["x"]}`)
	if got := <-s.echoed; got != `["x"]` {
		t.Errorf("answer to an echo request: %s", got)
	}
}

// TestConnectionEnds: calls that wait fail when the connection ends, and so do later ones; one whose time ran out
// fails alone.
func TestConnectionEnds(t *testing.T) {
	client, s := connect(t, nil) // no answer to anything
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := client.Transact(short, "db"); !errors.Is(err, context.DeadlineExceeded) || client.Err() != nil {
		t.Errorf("a call without an answer: %v, connection: %v", err, client.Err())
	}

	<-s.asked
	failed := make(chan error)
	ctx := within(t)
	go func() { _, err := client.Transact(ctx, "db"); failed <- err }()
	<-s.asked
	s.conn.Close()
	<-client.Done()
	_, later := client.Transact(within(t), "db")
	for what, err := range map[string]error{"the waiting call": <-failed, "a later call": later} {
		if err == nil || !strings.Contains(err.Error(), "ended: the server closed it") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
