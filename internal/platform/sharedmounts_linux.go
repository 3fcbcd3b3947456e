package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ShareMounts makes a folder a place whose mounts containers see as they come and go, and where containers that may (mount propagation
// Bidirectional) make mounts of the node. It changes nothing where the file system is shared already, as systemd has it everywhere;
// else the folder becomes a mount point.
func ShareMounts(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading the mount table: %w", err)
	}
	if isShared(string(table), dir) {
		return nil
	}

	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making %s a mount point: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("sharing the mounts of %s: %w", dir, err)
	}
	return nil
}

// UnshareMounts undoes ShareMounts, when nothing is mounted below the folder any more. It leaves alone a file system of its own, which
// somebody else mounted there.
func UnshareMounts(dir string) error {
	var here, parent unix.Stat_t
	err := errors.Join(unix.Stat(dir, &here), unix.Stat(filepath.Dir(dir), &parent))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking whether %s is a mount of ours: %w", dir, err)
	}
	if here.Dev != parent.Dev {
		return nil
	}
	return Detach(dir)
}

// isShared reports whether the mount that a path is on is a shared one, by the table that proc_pid_mountinfo(5) describes.
func isShared(table, path string) bool {
	longest, shared := -1, false
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		at := octal.Replace(f[4])
		if at != path && at != "/" && !strings.HasPrefix(path, at+"/") || len(at) < longest {
			continue
		}

		longest, shared = len(at), false
		for _, tag := range f[6:] {
			if tag == "-" {
				break
			}
			shared = shared || strings.HasPrefix(tag, "shared:")
		}
	}
	return shared
}
