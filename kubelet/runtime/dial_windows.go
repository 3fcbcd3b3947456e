package runtime

import (
	"context"
	"errors"
	"net"

	"github.com/Microsoft/go-winio"
)

// dialPipe connects to a named pipe, \\.\pipe\NAME.
func dialPipe(ctx context.Context, path string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, path)
}

// checkNetwork returns an error for a kind of endpoint that no runtime on this system has.
func checkNetwork(network string) error {
	if network == "unix" {
		return errors.New(
			"runtime endpoint: on Windows a runtime is reached at npipe:////./pipe/NAME or tcp://HOST:PORT, not at a unix socket")
	}
	return nil
}
