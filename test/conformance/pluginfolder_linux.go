package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pluginFolder is the folder of the kubelet's socket that the DaemonSet of upstream's device plugin mounts. Upstream's kubelet has it wherever its
// own folder is; ours in a local cluster has one in the node's folder.
const pluginFolder = "/var/lib/kubelet/device-plugins"

// showPluginFolder shows the one of our kubelet there, for a cluster of one Linux node. Until hidePluginFolder it hides that of a kubelet of this machine.
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

func (c *suiteCluster) hidePluginFolder() error {
	if err := unix.Unmount(pluginFolder, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("hiding the kubelet's folder of device plugins at %s: %w", pluginFolder, err)
	}
	return nil
}
