//go:build !linux

package path

import (
	"context"
	"errors"

	"porthole.dev/porthole/path"
)

const defaultDir = ""

func localFacts(context.Context, string) ([]path.Node, string, error) {
	return nil, "", errors.New("local clusters are on Linux: give --kubeconfig")
}

func sendProbe(context.Context, string, *path.Facts, path.Ends, path.Result) (*path.Probe, error) {
	return nil, errors.New("--probe: local clusters are on Linux")
}
