// Package control calls the control interface of an emulated host's HNS: what is not part of HNS itself, for the CNI
// shim, the command line and tests. It is HTTP with JSON on a Unix socket in the host's folder;
// emulator/hnsd/README.md lists the paths.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
)

// Socket returns the path of the control socket of the host in hostDir.
func Socket(hostDir string) string { return filepath.Join(hostDir, "hnsd.sock") }

// Error is a call that HNS refused.
type Error struct {
	Status int    // of HTTP
	Text   string // what HNS says; its status line if it says nothing
}

func (e *Error) Error() string { return e.Text }

// ErrNotRunning is the cause when nobody listens on the socket.
var ErrNotRunning = errors.New("HNS does not run")

// Do makes one call of the HNS of the host in hostDir and returns the answer, which is JSON. A nil body sends none.
// The time that it may take is ctx's: calls may wait for the data plane, and for faults that were set.
func Do(ctx context.Context, hostDir, method, path string, body []byte) ([]byte, error) {
	// Each call has a connection of its own: nothing stays open in a process that makes one call.
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", Socket(hostDir))
		},
	}}
	request, err := http.NewRequestWithContext(ctx, method, "http://hns"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")

	answer, err := client.Do(request)
	// The socket's file may outlive hnsd, so that a refused connection means the same as no file.
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}

	if answer.StatusCode == http.StatusOK {
		return data, nil
	}
	// A refusal is a JSON object with the field error. Anything else is shown as it came.
	var refusal struct{ Error string }
	if json.Unmarshal(data, &refusal) != nil || refusal.Error == "" {
		refusal.Error = strings.TrimSpace(answer.Status + " " + string(data))
	}
	return nil, &Error{Status: answer.StatusCode, Text: refusal.Error}
}

// Host is the state folder of an emulated host.
type Host string

// Call is Do with JSON values: body is what is sent, into where the answer goes; both may be nil.
func (h Host) Call(ctx context.Context, method, path string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := Do(ctx, string(h), method, path, data)
	if err != nil {
		return fmt.Errorf("HNS control %s %s: %w", method, path, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
