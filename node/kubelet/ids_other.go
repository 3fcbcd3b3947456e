//go:build !linux

package kubelet

import (
	"errors"

	"porthole.dev/porthole/kubelet/userns"
)

// idsForPods: only Linux has user namespaces; giveIDs does not ask elsewhere.
func idsForPods(uint32) (userns.Range, error) { return userns.Range{}, errors.ErrUnsupported }
