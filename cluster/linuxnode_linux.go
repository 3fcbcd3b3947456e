package cluster

import (
	"errors"
	"os"

	"porthole.dev/porthole/cluster/containerdconf"
)

// writeLinuxNode writes what only a Linux node has.
func writeLinuxNode(l Layout, _ Config, n Node) error {
	return errors.Join(
		writeFile(l.NodeFile(n.Name, "resolv.conf"), []byte(noResolver), 0o644),
		os.MkdirAll(podLogsDir(l, n), 0o755),
		writeContainerd(l, n),
	)
}

func writeContainerd(l Layout, n Node) error {
	o := containerdconf.Options{
		Dir: l.NodeFile(n.Name, "containerd"), Registry: "http://" + registryAddress(),
		CNIConfDir: l.NodeFile(n.Name, "cni", "net.d"), CNIBinDir: l.Bundled("cni"),
		InternalLoopback: true,
	}
	return containerdconf.Write(o)
}
