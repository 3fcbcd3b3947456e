package observe

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/cluster/layout"
)

// NodeClient makes HTTP requests from within a node of a local cluster.
func NodeClient(l layout.Layout, node string) (*http.Client, error) {
	c, err := config.Read(l)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	path := c.Netns(node)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("no node %s of a local cluster runs here (`porthole status` lists them): %w", node, err)
	}
	client := inspect.ClientIn(path)
	client.Timeout = 0 // the caller's context decides
	return client, nil
}
