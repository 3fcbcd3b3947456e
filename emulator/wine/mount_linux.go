package wine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/beneath"
)

// Mount is a copy-on-write view of a folder.
type Mount struct {
	Lower  []string // read-only layers, topmost first; required
	Upper  string   // changes go here; kept over unmount
	Work   string   // the kernel's scratch folder beside Upper
	Target string
}

// PrefixMount is the Wine prefix of a host: an overlay mount at prefix/ in the host's folder. It shows the template,
// in front of it the files of the folders over, and in front of both what the host has changed, which is kept in
// wine/upper. All hosts share the template's files, in memory too.
func PrefixMount(template, hostDir string, over ...string) Mount {
	return Mount{
		Lower:  append(slices.Clone(over), template),
		Upper:  filepath.Join(hostDir, "wine", "upper"),
		Work:   filepath.Join(hostDir, "wine", "work"),
		Target: filepath.Join(hostDir, "prefix"),
	}
}

// Ensure mounts it, or does nothing if Target is a mount point already.
func (m Mount) Ensure() error {
	mounted, err := IsMounted(m.Target)
	if err != nil || mounted {
		return err
	}
	for _, dir := range []string{m.Upper, m.Work, m.Target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
	}
	// The root of an overlay has the owner of its upper folder.
	owner := int(Prefix{Dir: m.Lower[len(m.Lower)-1]}.owner())
	if err := os.Lchown(m.Upper, owner, owner); err != nil {
		return fmt.Errorf("mounting %s: %w", m.Target, err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(m.Lower, ":"), m.Upper, m.Work)
	if err := unix.Mount("overlay", m.Target, "overlay", 0, options); err != nil {
		return fmt.Errorf("mounting %s over %s: %w", m.Target, m.Lower[0], err)
	}
	return nil
}

// Unmount takes the view away; Upper stays. Not mounted is success. Programs of the prefix must have ended; files that
// something still holds open vanish when it lets go.
func (m Mount) Unmount() error {
	p := Prefix{Dir: m.Target}
	// a box has a folder of its own for it
	if dir, err := p.socketDir(); err == nil && p.owner() == uint32(os.Getuid()) {
		_ = beneath.RemoveAll(dir) // sockets, which the next start replaces
	}
	for {
		err := unix.Unmount(m.Target, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", m.Target, err)
		}
	}
}

// IsMounted reports whether path is a mount point.
func IsMounted(path string) (bool, error) {
	var here, parent unix.Stat_t
	err := unix.Lstat(path, &here)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err == nil {
		err = unix.Lstat(filepath.Dir(path), &parent)
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", path, err)
	}
	return here.Dev != parent.Dev, nil
}

// IsLower reports whether something is mounted over dir: then dir must not change. In doubt it is true.
func IsLower(dir string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err != nil || isLower(string(mounts), dir)
}

// isLower looks for dir among the lower folders of the overlays in the text of mountinfo (proc_pid_mountinfo(5)).
func isLower(mountinfo, dir string) bool {
	for line := range strings.Lines(mountinfo) {
		for _, option := range strings.FieldsFunc(line,
			func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }) {
			if list, ok := strings.CutPrefix(option, "lowerdir="); ok &&
				slices.Contains(strings.Split(list, ":"), dir) {
				return true
			}
		}
	}
	return false
}
