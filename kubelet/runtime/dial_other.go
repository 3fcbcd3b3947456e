//go:build !windows

package runtime

import (
	"context"
	"errors"
	"net"
)

var errNoPipes = errors.New("runtime endpoint: only Windows has named pipes; use unix:///PATH or tcp://HOST:PORT")

func dialPipe(context.Context, string) (net.Conn, error) { return nil, errNoPipes }

// checkNetwork refuses what no runtime on this system listens at.
func checkNetwork(network string) error {
	if network == "npipe" {
		return errNoPipes
	}
	return nil
}
