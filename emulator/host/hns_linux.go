package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hnsd/serve"
)

// HNS makes one call of the control interface of the host's HNS; the answer is JSON. A nil body sends none.
func (h Host) HNS(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	if h.OS != "windows" {
		return nil, fmt.Errorf("host %s is a Linux node: it has no HNS", h.Name)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", serve.Socket(h.Dir))
		},
	}}
	q, err := http.NewRequestWithContext(ctx, method, "http://hns"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(q)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("the HNS of host %s does not run: `porthole host list` shows its processes", h.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the HNS of host %s: %w", h.Name, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("asking the HNS of host %s: %w", h.Name, err)
	}
	if resp.StatusCode == http.StatusOK {
		return data, nil
	}
	var failure struct{ Error string }
	if json.Unmarshal(data, &failure) != nil || failure.Error == "" {
		failure.Error = resp.Status
	}
	return nil, fmt.Errorf("asking the HNS of host %s: %s", h.Name, failure.Error)
}
