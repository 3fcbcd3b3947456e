// Package statefolder makes the state folders for the local clusters of tests. A machine can have only one such
// cluster. A test that go test ends at its time limit leaves its cluster running, and the next test takes it down.
package statefolder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// parent is beside where a cluster's state is by default: it is on a disk, and overlays can be mounted there.
const parent = "/var/lib"

// prefix begins the names of all these folders. It is short because the path of a socket may have 107 bytes.
const prefix = "porthole-test-"

// downLimit is the time that one cluster has to stop.
const downLimit = 2 * time.Minute

// Make makes a state folder for the clusters of this process, after it has taken down what ended processes have left.
// The caller calls remove at the end: it takes down the cluster in the folder, and removes the folder.
func Make(porthole string) (dir string, remove func() error, err error) {
	return makeIn(parent, porthole)
}

// makeIn first removes what tests that were killed have left. remove purges the folder and gives up
// its lock.
func makeIn(parent, porthole string) (dir string, remove func() error, err error) {
	found, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return "", nil, err
	}
	for _, left := range found {
		if err := purgeUnheld(porthole, left); err != nil {
			return "", nil, fmt.Errorf("a cluster that another test has left: %w", err)
		}
	}

	// Another process removes a folder of this prefix that nobody has locked. So the folder gets its name when it is
	// locked.
	hidden, err := os.MkdirTemp(parent, "."+prefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := hold(hidden)
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(hidden))
	}
	dir = filepath.Join(parent, filepath.Base(hidden)[1:])
	if err := os.Rename(hidden, dir); err != nil {
		return "", nil, errors.Join(err, lock.Close(), os.Remove(hidden))
	}
	return dir, func() error { return errors.Join(purge(porthole, dir), lock.Close()) }, nil
}

// purgeUnheld removes a folder with its cluster, unless a process holds it.
func purgeUnheld(porthole, dir string) error {
	lock, err := hold(dir)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return purge(porthole, dir)
}

// hold locks a folder until the file is closed, or this process ends. The error is EWOULDBLOCK while another has it.
func hold(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return f, nil
}

// purge takes down the cluster in a folder, after the hosts that a test has added to it, and removes the folder.
func purge(porthole, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), downLimit)
	defer cancel()
	hosts, err := added(ctx, porthole, dir)
	if err != nil {
		return err
	}
	for _, name := range hosts {
		if err := run(ctx, porthole, "host", "delete", "--dir", dir, name); err != nil {
			return err
		}
	}
	if err := run(ctx, porthole, "down", "--purge", "--dir", dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// added names the hosts in a folder that are not the cluster's.
func added(ctx context.Context, porthole, dir string) (names []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, "hosts")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	out, err := exec.CommandContext(ctx, porthole, "host", "list", "--dir", dir, "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("porthole host list --dir %s: %w", dir, err)
	}
	var hosts []struct {
		Name       string
		Standalone bool
	}
	if err := json.Unmarshal(out, &hosts); err != nil {
		return nil, fmt.Errorf("porthole host list --dir %s: %w: %s", dir, err, out)
	}
	for _, h := range hosts {
		if h.Standalone {
			names = append(names, h.Name)
		}
	}
	return names, nil
}

func run(ctx context.Context, porthole string, args ...string) error {
	if out, err := exec.CommandContext(ctx, porthole, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("porthole %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
