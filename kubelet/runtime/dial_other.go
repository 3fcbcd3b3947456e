//go:build !windows

package runtime

import (
	"context"
	"errors"
	"net"
)

// errNoPipes is the error of an endpoint for Windows.
var errNoPipes = errors.New("runtime endpoint: only Windows has named pipes; use unix:///PATH or tcp://HOST:PORT")

// dialPipe always fails here.
func dialPipe(context.Context, string) (net.Conn, error) { return nil, errNoPipes }

// checkNetwork returns an error for a kind of endpoint that no runtime on this system has.
func checkNetwork(network string) error {
	if network == "npipe" {
		return errNoPipes
	}
	return nil
}
