package inspect

import (
	"bytes"
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

	got, err := get(ctx, client, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), 16<<20)
	if err != nil {
		return nil, fmt.Errorf("asking port %d of %s: %w", port, node, err)
	}
	if got.code != http.StatusOK {
		return nil, fmt.Errorf("port %d of %s answered %s", port, node, got.status)
	}
	return got.body, nil
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
	got, err := get(ctx, client, address, 4096)
	if err == nil && got.code != http.StatusOK {
		err = fmt.Errorf("%s: %s", got.status, got.body)
	}
	return err
}

// Document reads a JSON document of at most a megabyte.
func Document(ctx context.Context, client *http.Client, url string, v any) error {
	got, err := get(ctx, client, url, 1<<20)
	if err != nil {
		return err
	}
	if got.code != http.StatusOK {
		return fmt.Errorf("%s: %s", url, got.status)
	}
	return json.NewDecoder(bytes.NewReader(got.body)).Decode(v)
}

// answer is what a server answered. status is the code with its words.
type answer struct {
	code   int
	status string
	body   []byte
}

// get asks for an address, and reads at most that many bytes of the answer.
func get(ctx context.Context, client *http.Client, url string, most int64) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return a, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return answer{resp.StatusCode, resp.Status, body}, err
}
