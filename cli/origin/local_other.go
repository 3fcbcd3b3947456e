//go:build !linux

package origin

import (
	"errors"
	"path/filepath"

	"porthole.dev/porthole/cli/program"
	"porthole.dev/porthole/web/collect"
)

// DefaultDir is that of local clusters, which are on Linux.
const DefaultDir = ""

// choose returns the cluster of the kubeconfig.
func (f Flags) choose() (*Origin, error) {
	if f.Kubeconfig == "" {
		return nil, program.Misused(errors.New("--kubeconfig is required: local clusters are on Linux"))
	}
	return &Origin{Options: collect.Options{Name: filepath.Base(f.Kubeconfig)}, kubeconfig: f.Kubeconfig}, nil
}
