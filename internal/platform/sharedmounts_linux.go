package platform

import (
	"fmt"
	"os"
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
