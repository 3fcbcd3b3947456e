//go:build !linux

package web

import (
	"errors"
	"path/filepath"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/web/collect"
)

const defaultDir = ""

// from returns where the data comes from: the cluster of --kubeconfig, as there are no local clusters here.
func (o options) from() (origin, error) {
	if o.kubeconfig == "" {
		return origin{}, program.Misused(errors.New("--kubeconfig is required: local clusters are on Linux"))
	}
	return origin{collect.Options{Name: filepath.Base(o.kubeconfig)}, o.kubeconfig}, nil
}
