package bgp

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// alone returns an error if another agent of this host speaks BGP. Otherwise no other one will until what it returns
// is closed, or this process ends. The name is one of the network namespace, as port 179 is.
func alone() (io.Closer, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@porthole-bgp", Net: "unix"})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, errOther
	}
	if err != nil {
		return nil, fmt.Errorf("looking for another agent: %w", err)
	}
	return l, nil
}
