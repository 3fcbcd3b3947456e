package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ShareMounts makes a folder a place whose mounts containers see as they come and go, and where containers that may
// (mount propagation Bidirectional) make mounts of the node. It changes nothing where the file system is shared
// already, as systemd has it everywhere; else the folder becomes a mount point.
func ShareMounts(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading the mount table: %w", err)
	}
	if isShared(string(table), dir) {
		return nil
	}

	if err := bindBelow(dir, mountsBelow(string(table), dir)); err != nil {
		return err
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("sharing the mounts of %s: %w", dir, err)
	}
	return nil
}

// bindBelow makes a folder a mount point and moves the mounts below it there, which are those of pods that an earlier
// kubelet started. Copies of them (MS_REC) would not do: the folder of a volume could not be removed while the mount
// that was copied is still there, out of sight.
func bindBelow(dir string, below []string) error {
	before, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	defer unix.Close(before)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("making %s a mount point: %w", dir, err)
	}

	var failed []error
	for _, path := range below {
		hidden := fmt.Sprintf("/proc/self/fd/%d/%s", before, strings.TrimPrefix(path, dir+"/"))
		if err := unix.Mount(hidden, path, "", unix.MS_MOVE, ""); err != nil {
			failed = append(failed, fmt.Errorf("moving the mount %s: %w", path, err))
		}
	}
	return errors.Join(failed...)
}

// mountsBelow returns the mounts below a folder, by the table that proc_pid_mountinfo(5) describes: those that no
// other mount below the folder carries.
func mountsBelow(table, dir string) (paths []string) {
	type mount struct{ parent, path string }
	below := map[string]mount{}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) >= 7 && strings.HasPrefix(octal.Replace(f[4]), dir+"/") {
			below[f[0]] = mount{f[1], octal.Replace(f[4])}
		}
	}

	for _, m := range below {
		if _, carried := below[m.parent]; !carried {
			paths = append(paths, m.path)
		}
	}
	slices.Sort(paths)
	return paths
}

// UnshareMounts undoes ShareMounts, when nothing is mounted below the folder any more. It leaves alone a file system
// of its own, which somebody else mounted there.
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

// isShared reports whether the mount that a path is on is a shared one, by the table that proc_pid_mountinfo(5)
// describes.
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
