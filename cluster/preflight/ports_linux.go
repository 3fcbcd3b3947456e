package preflight

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
)

// ChoosePorts returns the ports of the cluster in a folder. If there is none, it returns the first ports that are free
// on 127.0.0.1 after those of the cluster without a name.
func ChoosePorts(l layout.Layout) (api, registry int, err error) {
	c, err := config.Read(l)
	if err == nil {
		return c.APIPort, c.RegistryPort, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return 0, 0, err
	}
	c = config.Default()
	return freeAfter(c.APIPort), freeAfter(c.RegistryPort), nil
}

// freeAfter returns the first port behind another that is free, or the last that it looks at.
func freeAfter(port int) int {
	last := port + maxClusters
	for port++; portFree("", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) != nil && port < last; port++ {
	}
	return port
}

// maxClusters is how many ports freeAfter looks at.
const maxClusters = 100

func portFree(flag, address string) error {
	l, err := net.Listen("tcp", address)
	host, port, splitErr := net.SplitHostPort(address)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("port %s of %s is in use: choose another with %s", port, host, flag)
	}
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("%s is no address of this machine: --listen gives one, or 0.0.0.0", host)
	}
	if err := errors.Join(err, splitErr); err != nil {
		return fmt.Errorf("%s %s: %w", flag, port, err)
	}
	return l.Close()
}
