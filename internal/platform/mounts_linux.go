package platform

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MountPoints returns the mount points of this process's mount namespace, in the order of mounting. A folder with
// several mounts on top of each other is listed once for each.
func MountPoints() ([]string, error) { return mountPointsOf("self") }

// MountPointsOf is MountPoints of another process.
func MountPointsOf(pid int) ([]string, error) { return mountPointsOf(strconv.Itoa(pid)) }

func mountPointsOf(pid string) ([]string, error) {
	table, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return mountPoints(string(table)), nil
}

// MountPointsBelow returns the mount points inside dir, without dir itself.
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

// octal decodes the escapes of mountinfo (proc_pid_mountinfo(5), the fifth field).
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func mountPoints(table string) (points []string) {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 4 {
			points = append(points, octal.Replace(f[4]))
		}
	}
	return points
}

// Detach unmounts what is mounted at p. New users no longer see it at once; those that have it open keep it until they
// close it. It is success if nothing is mounted there.
func Detach(p string) error {
	err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", p, err)
	}
	return nil
}
