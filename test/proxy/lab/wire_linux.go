package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/testkit"
)

// Kind of an HNS object.
type Kind = hnsd.Kind

// The kinds.
const (
	Network      = hnsd.Network
	Endpoint     = hnsd.Endpoint
	Namespace    = hnsd.Namespace
	LoadBalancer = hnsd.LoadBalancer
)

// wireConn speaks as the DLLs do. Close it after use.
type wireConn struct {
	*wire.Conn
	io.Closer
}

// connect reaches HNS as a program of the host named Program, inside the host's network namespace.
func (h *HNS) connect(ctx context.Context) (*wireConn, error) {
	c, err := testkit.DialIn(h.netns)(ctx, "tcp4", wire.HNSAddress)
	if err != nil {
		return nil, fmt.Errorf("reaching HNS: %w", err)
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // an open connection takes deadlines
	hns, err := wire.NewConn(c, 0, h.Program)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &wireConn{hns, c}, nil
}

// open opens the object with that id and returns its handle.
func (w *wireConn) open(k Kind, id string) (handle uint64, err error) {
	handle, _, err = w.Call(wire.Request{Op: wire.On(k, wire.Open), GUID: id})
	return handle, err
}

// Create makes an object and gives its id and document. parent is the network of an endpoint, else "".
func (h *HNS) Create(ctx context.Context, k Kind, parent string, doc any) (id string, err error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return "", err
	}
	w, err := h.connect(ctx)
	if err != nil {
		return "", err
	}
	defer w.Close()

	var network uint64
	if parent != "" {
		if network, err = w.open(Network, parent); err != nil {
			return "", err
		}
	}
	made, _, err := w.Call(wire.Request{Op: wire.On(k, wire.Create), Handle: network, Text: [3]string{string(data)}})
	if err != nil {
		return "", err
	}

	_, text, err := w.Call(wire.Request{Op: wire.On(k, wire.Query), Handle: made})
	if err != nil {
		return "", err
	}
	var have struct{ ID string }
	err = json.Unmarshal([]byte(text), &have)

	return have.ID, err
}

// Modify changes an object.
func (h *HNS) Modify(ctx context.Context, k Kind, id string, doc any) error {
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w, err := h.connect(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	handle, err := w.open(k, id)
	if err != nil {
		return err
	}
	_, _, err = w.Call(wire.Request{Op: wire.On(k, wire.Modify), Handle: handle, Text: [3]string{string(data)}})
	return err
}

// Delete removes an object, as another program of the host would.
func (h *HNS) Delete(ctx context.Context, k Kind, id string) error {
	w, err := h.connect(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	_, _, err = w.Call(wire.Request{Op: wire.On(k, wire.Delete), GUID: id})
	return err
}
