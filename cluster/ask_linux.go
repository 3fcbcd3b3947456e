package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
)

// Asker asks the programs of a local cluster's nodes over the nodes' loopback, and keeps the connections. It is safe for concurrent use.
type Asker struct {
	config Config

	mu      sync.Mutex
	clients map[string]*http.Client
}

// NewAsker returns an Asker for the local cluster in the folder of l.
func NewAsker(l Layout) (*Asker, error) {
	config, err := readConfig(l)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no cluster in %s: run `porthole up` first, or give --kubeconfig", l.Dir)
	}
	if err != nil {
		return nil, err
	}
	return &Asker{config: config, clients: map[string]*http.Client{}}, nil
}

// Nodes returns the nodes that the cluster should have.
func (a *Asker) Nodes() []Node { return a.config.Nodes() }

// HasProxy reports whether a node has a service proxy of ours.
func (a *Asker) HasProxy(n Node) bool {
	return n.Windows && !a.config.WindowsKubeletOnly && a.config.network().services == nil
}

// HasRoutes reports whether `porthole routes` runs on a node.
func (a *Asker) HasRoutes(n Node) bool { return !n.Windows || !a.config.WindowsKubeletOnly }

// Ask reads a path at a port of a node's loopback. The answer may have 16 MiB.
func (a *Asker) Ask(ctx context.Context, node string, port int, path string) ([]byte, error) {
	a.mu.Lock()
	client := a.clients[node]
	if client == nil {
		client = clientInNetns(platform.NetnsPath(lab.Netns(node)))
		a.clients[node] = client
	}
	a.mu.Unlock()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of port %d of %s: %w", port, node, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("port %d of %s answered %s", port, node, resp.Status)
	}
	return body, nil
}
