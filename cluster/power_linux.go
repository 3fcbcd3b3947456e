package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/beneath"
)

// containerdData is where containerd.exe keeps images and containers, below the root of a prefix.
const containerdData = "drive_c/ProgramData/containerd"

// forgetUnwritten removes what may be half on the disk after a power failure and is made anew by itself: Wine
// templates, and the images and containers of all nodes. Neither Wine nor containerd waits until files are on the
// disk, and nobody looks at them again: a pod whose program is an empty file would crash for ever. No process of the
// cluster may run.
func forgetUnwritten(l layout.Layout, c config.Cluster) error {
	stamps, err := wine.TemplateStamps(l.Dir)
	if err != nil {
		return err
	}
	for _, stamp := range stamps {
		err = errors.Join(err, os.Remove(stamp))
	}

	for _, n := range c.Nodes() {
		containerd := containerdconf.Options{Dir: l.NodeFile(n.Name, "containerd")}
		for _, dir := range []string{containerd.Root(), containerd.State(), l.NodeFile(n.Name, "hcs")} {
			err = errors.Join(err, beneath.RemoveAll(dir))
		}
		err = errors.Join(err, forgetContainerdExe(l.NodeFile(n.Name, "wine", "upper")))
	}
	if err != nil {
		return fmt.Errorf("removing images after a power failure: %w", err)
	}
	return nil
}

// forgetContainerdExe removes what containerd.exe keeps from the changed files of a prefix that is not mounted. A
// node without a prefix has nothing.
func forgetContainerdExe(upper string) error {
	files, err := os.OpenRoot(upper)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer files.Close()
	return beneath.RemoveIn(files, filepath.FromSlash(containerdData))
}
