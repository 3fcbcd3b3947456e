package config

import (
	"net/netip"
	"slices"
	"strings"

	"porthole.dev/porthole/cluster/inspect"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/winbuild"
)

// Node is one host of the cluster.
type Node struct {
	Name    string     `json:"name"`
	Windows bool       `json:"windows"`
	Build   int        `json:"build,omitempty"` // of Windows
	Address netip.Addr `json:"address"`
}

// OS is the node's operating system as Kubernetes names it.
func (n Node) OS() string {
	if n.Windows {
		return "windows"
	}
	return "linux"
}

// Nodes of the cluster: lin01… from 10.99.0.11, win01… from 10.99.0.21.
func (c Cluster) Nodes() []Node {
	var nodes []Node
	for i := 1; i <= c.LinuxNodes; i++ {
		nodes = append(nodes, Node{Name: inspect.LinuxNode(i), Address: address(10 + i)})
	}
	builds, err := c.builds()
	if err != nil { // Validate reports it
		builds = []int{0}
	}
	for i := 1; i <= c.WindowsNodes; i++ {
		nodes = append(nodes, Node{Name: inspect.WindowsNode(i), Windows: true, Build: builds[(i-1)%len(builds)],
			Address: address(firstWindows + i - 1)})
	}
	return nodes
}

// Networked are the nodes that `porthole up` gives a pod network.
func (c Cluster) Networked() []Node {
	return slices.DeleteFunc(c.Nodes(), func(n Node) bool { return n.Windows && c.WindowsKubeletOnly })
}

// builds returns the builds that the Windows nodes take in turn.
func (c Cluster) builds() ([]int, error) {
	var out []int
	for _, text := range strings.Split(c.WindowsBuild, ",") {
		b, err := winbuild.ParseBuild(text)
		if err != nil {
			return nil, err
		}
		if _, err := wine.LookupBuild(int(b)); err != nil {
			return nil, err
		}
		out = append(out, int(b))
	}
	return out, nil
}
