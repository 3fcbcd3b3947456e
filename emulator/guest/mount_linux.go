package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// overlayMagic is what statfs says of an overlay (linux/magic.h).
const overlayMagic = 0x794c7630

// escape writes a path for the options of an overlay (Documentation/filesystems/overlayfs.rst).
var escape = strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`)

// Mount mounts an overlay at target, or does nothing if there is one. lower is top first. A path in it may have
// any characters.
func Mount(target string, lower []string, upper, work string) error {
	var st unix.Statx_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Statx(unix.AT_FDCWD, target, 0, 0, &st), unix.Statfs(target, &fs)); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 && fs.Type == overlayMagic {
		return nil
	}

	// Without "volatile" each unmount writes the whole file system to disk. The mark it leaves forbids the next mount
	// if the machine went down; a container's own layer need not survive that.
	if err := os.RemoveAll(filepath.Join(work, "work", "incompat")); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	escaped := make([]string, len(lower))
	for i, dir := range lower {
		escaped[i] = escape.Replace(dir)
	}
	options := fmt.Sprintf("volatile,lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(escaped, ":"),
		escape.Replace(upper), escape.Replace(work))
	if len(options) >= os.Getpagesize() {
		return fmt.Errorf("mounting %s: the image has too many layers (%d) for one overlay", target, len(lower))
	}
	if err := unix.Mount("overlay", target, "overlay", 0, options); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
}

// Unmount takes the mount at target away; none is success.
func Unmount(target string) error {
	err := unix.Unmount(target, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", target, err)
	}
	return nil
}
