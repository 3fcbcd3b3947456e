package host

import (
	"context"
	"errors"
	"fmt"

	"porthole.dev/porthole/emulator/hnsd/control"
)

// HNS makes one call of the control interface of the host's HNS; the answer is JSON. A nil body sends none.
func (h Host) HNS(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	if h.OS != "windows" {
		return nil, fmt.Errorf("host %s is a Linux node: it has no HNS", h.Name)
	}
	answer, err := control.Do(ctx, h.Dir, method, path, body)
	if errors.Is(err, control.ErrNotRunning) {
		return nil, fmt.Errorf("the HNS of host %s does not run: `porthole host list` shows its processes", h.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the HNS of host %s: %w", h.Name, err)
	}
	return answer, nil
}
