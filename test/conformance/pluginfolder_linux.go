package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pluginFolder is where the DaemonSet of upstream's device plugin expects the kubelet's socket. Upstream's kubelet
// always has it there, whatever its --root-dir is. Our kubelets in a local cluster have it in a folder of each node
// instead.
const pluginFolder = "/var/lib/kubelet/device-plugins"

// showPluginFolder bind-mounts the device plugin folder of the cluster's only Linux node at pluginFolder, until
// hidePluginFolder. If this machine runs a kubelet of its own, its folder is hidden in the meantime.
func (c *suiteCluster) showPluginFolder() error {
	own := filepath.Join(c.o.dir, "hosts", nodesOf(c.o)[0], "kubelet", filepath.Base(pluginFolder))
	if err := os.MkdirAll(pluginFolder, 0o750); err != nil {
		return fmt.Errorf("making the folder of device plugins: %w", err)
	}
	if err := unix.Mount(own, pluginFolder, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("showing the kubelet's folder of device plugins %s at %s: %w", own, pluginFolder, err)
	}
	return nil
}

// hidePluginFolder leaves the folder itself, which was there before or is empty.
func (c *suiteCluster) hidePluginFolder() error {
	if err := unix.Unmount(pluginFolder, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("hiding the kubelet's folder of device plugins at %s: %w", pluginFolder, err)
	}
	return nil
}
