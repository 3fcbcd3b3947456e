// Package nodes makes the hosts of a local cluster, and what lies on each: network namespaces, the C: of Windows nodes,
// programs and their configuration. It also does on running Windows nodes what their administrator would.
package nodes

import (
	"errors"
	"fmt"
	"path/filepath"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/cluster/settings"
	"porthole.dev/porthole/emulator/host"
)

// EnsureNetwork makes the network namespaces of router and nodes with their links, and what the mode of the network
// needs of them.
func EnsureNetwork(l layout.Layout, c config.Cluster) error {
	for _, n := range c.Nodes() {
		if err := c.Lab().EnsureHost(n.Name, n.Address); err != nil {
			return err
		}
		if err := c.Lab().EnsureCards(n.Name, c.Cards(n)); err != nil {
			return err
		}
		if c.Dual() {
			if err := c.Lab().EnsureSix(n.Name, n.Address); err != nil {
				return fmt.Errorf("addresses of IPv6: %w", err)
			}
		}
	}
	if prepare := network.Of(c).Prepare; prepare != nil {
		return prepare(l, c)
	}
	return nil
}

// Write writes what the processes of every node read: /etc/kubernetes of a real one.
func Write(l layout.Layout, c config.Cluster) error {
	doc, err := settings.ControlPlane(l, c)
	if err != nil {
		return err
	}
	if err := install.File(filepath.Join(l.ControlPlane(), "config.json"), doc, 0o644); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		write := writeLinuxNode
		if n.Windows {
			write = writeWindowsNode
		}
		if !n.Windows || c.Supervisor == config.SuperviseProcesses { // else `porthole join` writes its own
			if err := writeKubernetesFiles(l, c, n); err != nil {
				return fmt.Errorf("node %s: %w", n.Name, err)
			}
		}
		if err := errors.Join(describe(l, c, n), write(l, c, n)); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

// describe writes the file by which `porthole host` knows the node.
func describe(l layout.Layout, c config.Cluster, n config.Node) error {
	return host.Store{Dir: l.Dir}.Describe(c.Host(l, n))
}
