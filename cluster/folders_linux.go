package cluster

import (
	"errors"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/internal/platform"
)

// makeFolders makes the folders of a cluster's state that hold secrets, so that only root can read what lies in them.
// Those of an earlier version, which were open, are closed. The state folder and a Linux node's can be passed through:
// below them are the files of containers whose root is nobody on this machine, and those of a router that does not run
// as root.
func makeFolders(l layout.Layout, c config.Cluster) error {
	err := errors.Join(makeStateFolder(l), platform.MakeFolder(l.Hosts(), platform.PassThrough))
	for _, dir := range []string{l.RunDir(), l.PKI(), l.ControlPlane(), l.Logs(), l.Cache()} {
		err = errors.Join(err, platform.MakeFolder(dir, platform.Closed))
	}
	for _, n := range c.Nodes() {
		if n.Windows {
			err = errors.Join(err, confine.MakeFolder(l.Host(n.Name)))
			continue
		}
		err = errors.Join(err, platform.MakeFolder(l.Host(n.Name), platform.PassThrough),
			platform.MakeFolder(l.NodeFile(n.Name, "containerd"), platform.PassThrough))
		for _, name := range []string{"kubernetes", "kubelet", "cni", "log", "logs"} {
			err = errors.Join(err, platform.MakeFolder(l.NodeFile(n.Name, name), platform.Closed))
		}
	}
	return err
}
