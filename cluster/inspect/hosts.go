package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"porthole.dev/porthole/emulator/hnsd/control"
)

// Hosts are the emulated Windows hosts of a state folder.
type Hosts struct{ Dir string }

func (h Hosts) folder(name string) string { return filepath.Join(h.Dir, "hosts", name) }

// Names lists the hosts: those with a C: drive. A folder without hosts has none.
func (h Hosts) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(h.Dir, "hosts"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	var names []string
	for _, e := range entries {
		if st, err := os.Stat(filepath.Join(h.folder(e.Name()), "prefix")); err == nil && st.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// HNS makes one call of the control interface of a host's HNS; the answer is JSON. A nil body sends none.
func (h Hosts) HNS(ctx context.Context, name, method, path string, body []byte) ([]byte, error) {
	if name != filepath.Base(name) {
		return nil, fmt.Errorf("host %q: this is no name", name)
	}
	answer, err := control.Do(ctx, h.folder(name), method, path, body)
	if errors.Is(err, control.ErrNotRunning) {
		return nil, fmt.Errorf("the HNS of host %s does not run: `porthole host list` shows its processes", name)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the HNS of host %s: %w", name, err)
	}
	return answer, nil
}
