package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/internal/platform"
)

// lock makes sure that one `up` or `down` at a time works on the folder.
func lock(l layout.Layout) (func(), error) {
	if err := makeStateFolder(l); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(l.LockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another `porthole up` or `porthole down`: wait for it to end", l.Dir)
	}
	return func() { f.Close() }, nil
}

// makeStateFolder makes the folder of a cluster's state. One that is there keeps its permissions, because it may be
// the caller's.
func makeStateFolder(l layout.Layout) error {
	if _, err := os.Stat(l.Dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return platform.MakeFolder(l.Dir, platform.PassThrough)
}
