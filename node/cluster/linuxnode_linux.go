package cluster

import (
	"errors"
	"os"
)

// writeLinuxNode writes what only a Linux node has.
func writeLinuxNode(l Layout, n Node) error {
	return errors.Join(
		writeFile(l.NodeFile(n.Name, "resolv.conf"), []byte("# no servers outside the cluster\n"), 0o644),
		os.MkdirAll(podLogsDir(l, n), 0o755),
	)
}
