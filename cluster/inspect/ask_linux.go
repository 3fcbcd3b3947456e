package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// Cluster is a local cluster. It keeps connections to the nodes' programs, and is safe for concurrent use.
type Cluster struct {
	Hosts
	nodes []Node
	lab   lab.Lab

	mu      sync.Mutex
	clients map[string]*http.Client
}

// Open returns the local cluster in a folder.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	shape, err := read(dir)
	if err != nil {
		return nil, err
	}
	return &Cluster{Hosts: Hosts{dir}, nodes: shape.Nodes(), lab: lab.Lab(shape.Name),
		clients: map[string]*http.Client{}}, nil
}

// Nodes returns the nodes that the cluster should have.
func (c *Cluster) Nodes() []Node { return c.nodes }

// Kubeconfig is the file with its administrator's access.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, Kubeconfig) }

// Ask reads a path at a port of a node's loopback. The answer may have 16 MiB.
func (c *Cluster) Ask(ctx context.Context, node string, port int, path string) ([]byte, error) {
	c.mu.Lock()
	client := c.clients[node]
	if client == nil {
		client = ClientIn(platform.NetnsPath(c.lab.Netns(node)))
		c.clients[node] = client
	}
	c.mu.Unlock()

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

// ClientIn makes requests in the network namespace at a path. A request takes 8 s at most.
func ClientIn(netns string) *http.Client {
	dial := func(_ context.Context, network, address string) (conn net.Conn, err error) {
		err = platform.InNetns(netns, func() (err error) {
			conn, err = net.DialTimeout(network, address, slow.Limit(3*time.Second))
			return err
		})
		return conn, err
	}
	return &http.Client{Timeout: slow.Limit(8 * time.Second), Transport: &http.Transport{DialContext: dial}}
}

// Get returns nil if the address answers 200. The error of another answer includes its body, up to 4 KiB.
func Get(ctx context.Context, client *http.Client, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

// Document reads a JSON document of at most a megabyte.
func Document(ctx context.Context, client *http.Client, url string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(v)
}
