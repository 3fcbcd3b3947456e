package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// DefaultDir is the state folder of the local cluster unless --dir names another.
const DefaultDir = "/var/lib/porthole"

// ConfigFile and Kubeconfig are names of files in the state folder.
const (
	ConfigFile = "cluster.json"
	Kubeconfig = "kubeconfig"
)

// Shape is what of a cluster's configuration says which nodes it has and what runs on them. config.Cluster has the
// same fields.
type Shape struct {
	Name               string `json:"name"`
	LinuxNodes         int    `json:"linuxNodes"`
	WindowsNodes       int    `json:"windowsNodes"`
	WindowsKubeletOnly bool   `json:"windowsKubeletOnly"`
	Network            string `json:"network"`
}

// Node is a node that the cluster should have.
type Node struct {
	Name, OS string
	// Routes: `porthole routes` runs on it. Proxy: our service proxy does.
	Routes, Proxy bool
}

// LinuxNode and WindowsNode return the name of the node with a number, from 1.
func LinuxNode(n int) string   { return fmt.Sprintf("lin%02d", n) }
func WindowsNode(n int) string { return fmt.Sprintf("win%02d", n) }

// noProxy are the modes of the network that balance services themselves.
var noProxy = map[string]bool{"ovn": true}

// Nodes returns the nodes that a cluster of this shape should have.
func (s Shape) Nodes() []Node {
	var nodes []Node
	for i := range s.LinuxNodes {
		nodes = append(nodes, Node{Name: LinuxNode(i + 1), OS: "linux", Routes: true})
	}
	for i := range s.WindowsNodes {
		ours := !s.WindowsKubeletOnly
		nodes = append(nodes, Node{Name: WindowsNode(i + 1), OS: "windows", Routes: ours,
			Proxy: ours && !noProxy[s.Network]})
	}
	return nodes
}

// read reads the shape of the cluster in a folder.
func read(dir string) (s Shape, err error) {
	file := filepath.Join(dir, ConfigFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("no cluster in %s: run `porthole up` first, or give --kubeconfig", dir)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", file, err)
	}
	return s, nil
}
