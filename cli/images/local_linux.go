package images

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/winbuild"
)

func addLocalFlag(fs *pflag.FlagSet, dir *string) {
	fs.StringVar(dir, "dir", cluster.DefaultDir, "state folder of the local cluster")
}

// findLocal returns what the local cluster in a folder has; there may be none.
func findLocal(dir string) (localCluster, error) {
	l, err := cluster.NewLayout(dir)
	if err != nil {
		return localCluster{}, err
	}
	mirror, err := cluster.RegistryURL(l)
	return localCluster{kubeconfig: l.Kubeconfig(), mirror: mirror}, err
}

// findNode returns the runtime of a node of the local cluster.
func findNode(dir, name string) (nodeRuntime, error) {
	l, err := cluster.NewLayout(dir)
	if err != nil {
		return nodeRuntime{}, err
	}
	h, err := host.Store{Dir: l.Dir}.Get(name)
	if err != nil {
		return nodeRuntime{}, err
	}
	if h.OS != "windows" {
		return nodeRuntime{}, fmt.Errorf("node %s is no Windows node", name)
	}
	dial, err := cluster.NodeDial(name)
	if err != nil {
		return nodeRuntime{}, err
	}
	return nodeRuntime{endpoint: "tcp://" + cri.Address + " of " + name,
		host: winbuild.Host{Name: name, Version: winbuild.Version{Build: winbuild.Build(h.Build), Revision: -1}, Architecture: "amd64"},
		dial: func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, "tcp", cri.Address) }}, nil
}
