package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Client is one connection to a database server. It never reconnects: after an error of the connection every call
// fails, and Done is closed. It is safe for concurrent use.
type Client struct {
	address string
	conn    net.Conn
	done    chan struct{}

	writing sync.Mutex
	mu      sync.Mutex
	err     error
	next    int
	waiting map[int]chan reply
	caches  map[string]*Cache
	locks   map[string]func(held bool)
}

type reply struct {
	result json.RawMessage
	err    error
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// probePeriod is how often the client sends an echo request. probeWait is how long its answer, or a write, may take
// before the connection counts as broken. Open vSwitch's own clients send theirs every 5 s too.
const (
	probePeriod = 5 * time.Second
	probeWait   = 10 * time.Second
)

// Dial connects to the first of the addresses that answers. They are separated by commas and written as Open vSwitch
// writes them: tcp:HOST:PORT or unix:PATH. The context bounds the attempt only.
func Dial(ctx context.Context, addresses string) (*Client, error) {
	var errs []error
	for _, address := range strings.Split(addresses, ",") {
		network, at, err := Parse(address)
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, at)
		if err != nil {
			errs = append(errs, fmt.Errorf("connecting to the database at %s: %w", address, err))
			continue
		}
		return newClient(address, conn), nil
	}
	return nil, errors.Join(errs...)
}

// Parse splits an address into a network and an address for package net.
func Parse(address string) (network, at string, err error) {
	kind, rest, _ := strings.Cut(strings.TrimSpace(address), ":")
	switch {
	case rest == "":
	case kind == "unix":
		return "unix", rest, nil
	case kind == "tcp":
		if _, _, err := net.SplitHostPort(rest); err == nil {
			return "tcp", rest, nil
		}
	case kind == "ssl":
		return "", "", fmt.Errorf("database address %q: ssl is not supported; use tcp or unix", address)
	}
	return "", "", fmt.Errorf("database address %q is neither tcp:HOST:PORT nor unix:PATH", address)
}

func newClient(address string, conn net.Conn) *Client {
	c := &Client{address: address, conn: conn, done: make(chan struct{}),
		waiting: map[int]chan reply{}, caches: map[string]*Cache{}, locks: map[string]func(bool){}}
	go c.read()
	go c.probe()
	return c
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil while it is there.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection.
func (c *Client) Close() { c.fail(errors.New("closed")) }

// fail ends the connection and every call that waits for an answer.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = fmt.Errorf("the connection to the database at %s ended: %w", c.address, err)
	c.conn.Close()
	for id, w := range c.waiting {
		w <- reply{err: c.err}
		delete(c.waiting, id)
	}
	close(c.done)
}

// read handles what the server sends.
func (c *Client) read() {
	in := json.NewDecoder(c.conn)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server closed it")
			}
			c.fail(err)
			return
		}
		if err := c.handle(m); err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Client) handle(m message) error {
	switch m.Method {
	case "":
		var id int
		if err := json.Unmarshal(m.ID, &id); err != nil {
			return fmt.Errorf("an answer has the id %s", m.ID)
		}
		r := reply{result: m.Result}
		if len(m.Error) > 0 && string(m.Error) != "null" {
			r.err = fmt.Errorf("the database at %s answers: %s", c.address, m.Error)
		}
		c.mu.Lock()
		w := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if w != nil {
			w <- r
		}

	case "echo":
		return c.send(map[string]any{"id": m.ID, "result": m.Params, "error": nil})

	case "update":
		return c.update(m.Params)
	case "locked", "stolen":
		return c.lockChanged(m.Params, m.Method == "locked")
	}
	return nil
}

// update applies a notification to the cache that it is for. A cache is registered before its monitor is asked for,
// and the answer comes before the first update.
func (c *Client) update(params json.RawMessage) error {
	var parts []json.RawMessage
	var id string
	var changes tableUpdates
	if err := json.Unmarshal(params, &parts); err != nil || len(parts) != 2 {
		return fmt.Errorf("an update has the parameters %.200s", params)
	}
	if err := errors.Join(json.Unmarshal(parts[0], &id), json.Unmarshal(parts[1], &changes)); err != nil {
		return fmt.Errorf("reading an update: %w", err)
	}
	c.mu.Lock()
	cache := c.caches[id]
	c.mu.Unlock()
	if cache != nil {
		cache.apply(changes)
	}
	return nil
}

func (c *Client) send(m map[string]any) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message for the database: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(probeWait)); err != nil {
		return err
	}
	_, err = c.conn.Write(data)
	return err
}

// call sends a request and decodes its answer into result. The answer is ignored if result is nil.
func (c *Client) call(ctx context.Context, method string, params []any, result any) error {
	w := make(chan reply, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.next++
	id := c.next
	c.waiting[id] = w
	c.mu.Unlock()

	if err := c.send(map[string]any{"id": id, "method": method, "params": params}); err != nil {
		c.fail(err)
		return c.Err()
	}
	select {
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return fmt.Errorf("waiting for the database at %s to answer %s: %w", c.address, method, ctx.Err())
	case r := <-w:
		if r.err != nil || result == nil {
			return r.err
		}
		if err := json.Unmarshal(r.result, result); err != nil {
			return fmt.Errorf("reading the answer of the database at %s to %s: %w", c.address, method, err)
		}
		return nil
	}
}

// Transact carries out all operations or none. The error of a refused transaction is an *Error.
func (c *Client) Transact(ctx context.Context, database string, ops ...Op) ([]Result, error) {
	params := []any{database}
	for _, op := range ops {
		params = append(params, op)
	}
	var results []Result
	if err := c.call(ctx, "transact", params, &results); err != nil {
		return nil, err
	}
	if err := firstError(ops, results); err != nil {
		return results, err
	}
	if len(results) < len(ops) {
		return results, fmt.Errorf("the database at %s answers %d of %d operations", c.address, len(results), len(ops))
	}
	return results, nil
}

// Lock requests the lock with that name (RFC 7047, section 4.1.8). The server gives a lock to one client at a time.
// held is true if this client has it now; if not, the server keeps the request. changed is called with true when the
// server gives the lock to this client later, and with false when another client takes it. It runs in the goroutine
// that reads the connection and must not block.
func (c *Client) Lock(ctx context.Context, name string, changed func(held bool)) (held bool, err error) {
	c.mu.Lock()
	c.locks[name] = changed
	c.mu.Unlock()
	var answer struct{ Locked bool }
	err = c.call(ctx, "lock", []any{name}, &answer)
	return answer.Locked, err
}

func (c *Client) lockChanged(params json.RawMessage, held bool) error {
	var names []string
	if err := json.Unmarshal(params, &names); err != nil || len(names) != 1 {
		return fmt.Errorf("a notification about a lock has the parameters %.200s", params)
	}
	c.mu.Lock()
	changed := c.locks[names[0]]
	c.mu.Unlock()
	if changed != nil {
		changed(held)
	}
	return nil
}

// probe ends the connection when the server no longer answers. TCP alone notices that after many minutes.
func (c *Client) probe() {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), probeWait)
		err := c.call(ctx, "echo", []any{}, nil)
		cancel()
		if err != nil {
			c.fail(err)
			return
		}
	}
}
