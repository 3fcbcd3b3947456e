package supervise

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Hold keeps the supervisor of a folder from doing anything until release is called: what ends meanwhile is started again only
// then. Its standby does not take over, because the supervisor is there. No supervisor is an error.
func Hold(runDir string) (release func(), err error) {
	active, _ := Supervisors(runDir)
	if active.PID == 0 || !active.Alive() {
		return nil, errors.New("nothing keeps its processes running")
	}
	if err := unix.Kill(active.PID, unix.SIGSTOP); err != nil {
		return nil, fmt.Errorf("holding the supervisor (pid %d): %w", active.PID, err)
	}
	return func() { _ = unix.Kill(active.PID, unix.SIGCONT) }, nil // one that ended has a standby
}
