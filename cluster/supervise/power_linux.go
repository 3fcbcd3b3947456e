package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/platform"
)

// Files in the run folder that tell how a boot of the machine ended.
const (
	bootFile = "boot" // the boot in which the list of processes was written
	leftFile = "left" // a supervisor was asked to end, as all processes are when the machine shuts down
)

// LostPower reports whether the machine has restarted under the processes of a run folder without being shut down.
// Files that were written some seconds before may then be empty. It must be asked before WriteProcesses.
func LostPower(runDir string) (bool, error) {
	if _, err := ReadProcesses(runDir); errors.Is(err, os.ErrNotExist) {
		return false, nil // nothing was running
	}
	boot, err := os.ReadFile(filepath.Join(runDir, bootFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("reading in which boot the cluster ran: %w", err)
	}
	if string(boot) == platform.BootID() {
		return false, nil
	}

	switch _, err := os.Stat(filepath.Join(runDir, leftFile)); {
	case err == nil:
		return false, nil
	case errors.Is(err, os.ErrNotExist):
		return true, nil
	default:
		return false, fmt.Errorf("reading how the last boot ended: %w", err)
	}
}

// noteBoot writes down that processes run in this boot.
func noteBoot(runDir string) error {
	err := os.Remove(filepath.Join(runDir, leftFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(filepath.Join(runDir, bootFile), []byte(platform.BootID()), 0o600)
}

// noteLeft writes down that this supervisor was asked to end.
func noteLeft(runDir string) error {
	return os.WriteFile(filepath.Join(runDir, leftFile), nil, 0o600)
}
