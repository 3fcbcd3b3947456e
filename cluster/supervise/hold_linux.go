package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/slow"
)

// holdLimit bounds how long Hold waits for a start that is under way, or for another Hold.
const holdLimit = 30 * time.Second

// Hold keeps the supervisor of a folder from starting processes of a node, those of none for "", until release is
// called or the caller's process ends. Processes that run are left alone; what ends meanwhile is started again
// afterwards. When Hold returns, no start is under way. The error says if no supervisor runs.
func Hold(ctx context.Context, runDir, node string) (release func(), err error) {
	active, _ := Supervisors(runDir)
	if active.PID == 0 {
		return nil, errors.New("nothing keeps its processes running")
	}
	f, err := openHold(runDir, node)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, slow.Limit(holdLimit))
	defer cancel()
	if err := acquire(ctx, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("holding back the processes: %w", err)
	}
	return func() { f.Close() }, nil
}

// openHold opens the file whose lock says whether processes of a node may be started: a start has it shared, a Hold
// for itself.
func openHold(runDir, node string) (*os.File, error) {
	return os.OpenFile(filepath.Join(runDir, "hold-"+node+".lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
}

// mayStart reports whether no Hold is in force for the process. Until done is called none can begin.
func (k *keeper) mayStart() (done func(), ok bool, err error) {
	f, err := openHold(k.runDir, k.process.Node)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return func() { f.Close() }, true, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, false, err
}
