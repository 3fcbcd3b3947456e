package platform

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MountPoints lists where something is mounted in this process's mount namespace, in the order of mounting; a folder that is
// mounted over is listed as often as it was.
func MountPoints() ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return mountPoints(string(table)), nil
}

// MountPointsBelow lists those inside dir, and not dir itself.
func MountPointsBelow(dir string) ([]string, error) {
	all, err := MountPoints()
	var below []string
	for _, p := range all {
		if strings.HasPrefix(p, dir+"/") {
			below = append(below, p)
		}
	}
	return below, err
}

// octal undoes the escapes of mountinfo (proc_pid_mountinfo(5), the fifth field).
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func mountPoints(table string) (points []string) {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 4 {
			points = append(points, octal.Replace(f[4]))
		}
	}
	return points
}

// Detach unmounts what is mounted at p, now for new users and when the last one is done for those that have it open. Nothing
// mounted there is success.
func Detach(p string) error {
	err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", p, err)
	}
	return nil
}
