package config

import (
	"encoding/json"
	"fmt"
	"os"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/atomicfile"
)

// Read reads which cluster the folder has. The error wraps os.ErrNotExist if it has none.
func Read(l layout.Layout) (Cluster, error) {
	var c Cluster
	data, err := os.ReadFile(l.ConfigFile())
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading %s: %w", l.ConfigFile(), err)
	}
	return c, nil
}

// Write notes which cluster the folder has. The file is whole after a power failure: without it nothing knows the
// cluster.
func Write(l layout.Layout, c Cluster) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteThrough(l.ConfigFile(), data, 0o600)
}

// LabOf is the network of the cluster in a folder.
func LabOf(dir string) (lab.Lab, error) {
	l, err := layout.New(dir)
	if err != nil {
		return "", err
	}
	c, err := Read(l)
	return c.Lab(), err
}

// RegistryURL returns the address of the registry of the cluster in a folder, as this machine reaches it.
func RegistryURL(l layout.Layout) (string, error) {
	c, err := Read(l)
	return fmt.Sprintf("http://127.0.0.1:%d", c.RegistryPort), err
}
