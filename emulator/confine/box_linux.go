package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
)

// CloneFlags are the namespaces that the first process of a box is made with. That of mounts is filled by Enter.
const CloneFlags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC

// boxFile has the first process of a box, in the host's folder.
const boxFile = "box.json"

// first is the first process of a box, as the machine numbers it. The start time tells it from a later one with the
// same number.
type first struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the machine's start
}

// Libraries are the folders and files of the machine that Wine needs. They are shown read-only, those that are there.
func Libraries(tools wine.Tools) []string {
	list := []string{"/usr/lib", "/usr/lib64", "/usr/share/wine", "/usr/share/zoneinfo", wine.Starter, Setpriv, Nsenter}
	for _, program := range []string{tools.Loader, tools.Server} {
		real, err := filepath.EvalSymlinks(program)
		if err == nil && !strings.HasPrefix(real, "/usr/lib") {
			list = append(list, filepath.Dir(filepath.Dir(real))) // an installation in a folder of its own
		}
	}
	return list
}

// Links are the folders of the root that distributions have as links into /usr.
var Links = []string{"/lib", "/lib64"}

// settings are files of /etc that Wine and the C library read.
var settings = []string{"/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/localtime",
	"/etc/timezone", "/etc/ssl/certs", "/etc/fonts"}

// devices are those that every container has, too.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// MaskedPaths and ReadonlyPaths are files of /proc that tell of the machine or change it: those that containerd and
// runc name (oci.WithDefaultSpec), and the addresses of the kernel.
var (
	MaskedPaths = []string{"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/interrupts", "/proc/kallsyms", "/proc/modules", "/proc/config.gz",
		"/proc/key-users", "/proc/kmsg",
		"/proc/slabinfo", "/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/diskstats", "/proc/partitions",
		"/proc/mtrr", "/proc/swaps"}
	ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/proc/driver",
		"/proc/tty"}
)

// processors is what Wine reads of the machine's processors.
var processors = []string{"/sys/devices/system/cpu", "/sys/devices/system/node"}

// Enter makes the calling process, which was made with CloneFlags, the first one of the box of a host: the host's
// wineserver. It returns only if it fails. Share must have been called for the host's folder.
func Enter(hostDir string, tools wine.Tools) error {
	runtime.LockOSThread() // with the rights that it gives up, the thread becomes the program
	server := tools.ServerCommand(wine.Prefix{Dir: filepath.Join(hostDir, "prefix")})
	self, err := os.Readlink("/proc/self") // /proc is still that of the machine, so that this is its number there
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(self)
	if err != nil {
		return err
	}
	me := first{Pid: pid}
	if me.Start, err = platform.ProcessStart(pid); err != nil {
		return err
	}
	text, err := json.Marshal(me)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(hostDir, boxFile+".new"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_CLOEXEC,
		0o600)
	if err != nil {
		return err
	}
	folder, err := os.Open(hostDir)
	if err != nil {
		return err
	}

	if err := OpenNetwork(""); err != nil {
		return err
	}
	if err := makeRoot(hostDir, tools); err != nil {
		return fmt.Errorf("making what the programs of %s see: %w", hostDir, err)
	}
	// Written at the end: who reads it may enter.
	if _, err := file.Write(text); err != nil {
		return err
	}
	if err := unix.Renameat(int(folder.Fd()), boxFile+".new", int(folder.Fd()), boxFile); err != nil {
		return err
	}
	if err := limit(); err != nil {
		return err
	}
	err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(wine.Owner), syscall.Setuid(wine.Owner))
	if err != nil {
		return fmt.Errorf("becoming user %d: %w", wine.Owner, err)
	}
	return syscall.Exec(server.Path, server.Args, server.Env)
}

// root is a folder that becomes the root of a box.
type root string

func (r root) at(path string) string { return filepath.Join(string(r), path) }

// makeRoot makes the box's view of files, and leaves the machine's.
func makeRoot(hostDir string, tools wine.Tools) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	base := root(filepath.Join(hostDir, "box"))
	tmp := filepath.Join(hostDir, "tmp")
	err := errors.Join(os.MkdirAll(string(base), 0o700), os.MkdirAll(tmp, 0o700),
		os.Lchown(tmp, wine.Owner, wine.Owner))
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", string(base), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}

	steps := []func() error{
		func() error { return base.readonly(append(Libraries(tools), settings...)...) },
		func() error { return base.readonly(processors...) },
		func() error { return base.links() },
		func() error { return base.users() },
		func() error { return base.bind(tmp, "/tmp", 0) },
		func() error { return base.bind(hostDir, hostDir, unix.MS_REC) },
		func() error { return base.proc() },
		func() error { return base.dev() },
		func() error { return base.pivot(filepath.Join(hostDir, "box")) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// readonly shows files and folders of the machine. Those that it has not are left out.
func (r root) readonly(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := r.bind(path, path, unix.MS_RDONLY); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts from, a file or a folder of the machine, at the path to. No program of another user can be started
// there, and no device opened.
func (r root) bind(from, to string, flags uintptr) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := r.point(to, st.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(from, r.at(to), "", unix.MS_BIND|flags&unix.MS_REC, ""); err != nil {
		return fmt.Errorf("showing %s: %w", from, err)
	}
	if err := unix.Mount("", r.at(to), "",
		unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|flags&unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("showing %s: %w", from, err)
	}
	return nil
}

// point makes what something is mounted on.
func (r root) point(path string, folder bool) error {
	if folder {
		return os.MkdirAll(r.at(path), 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(r.at(path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.at(path), nil, 0o644)
}

func (r root) links() error {
	for _, path := range Links {
		target, err := os.Readlink(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.Symlink(target, r.at(path))
		} else {
			err = r.readonly(path) // a folder of its own
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// users gives the box's only user the name that programs of hosts have always had.
func (r root) users() error {
	if err := os.MkdirAll(r.at("/etc"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.at("/etc/passwd"), fmt.Appendf(nil, "root:x:%d:%d::/:/\n", wine.Owner, wine.Owner), 0o644)
}

func (r root) proc() error {
	if err := os.Mkdir(r.at("/proc"), 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", r.at("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	for _, path := range MaskedPaths {
		st, err := os.Stat(r.at(path))
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err == nil && st.IsDir():
			err = unix.Mount("tmpfs", r.at(path), "tmpfs", unix.MS_RDONLY, "size=0")
		case err == nil:
			err = unix.Mount("/dev/null", r.at(path), "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("hiding %s: %w", path, err)
		}
	}

	for _, path := range ReadonlyPaths {
		err := unix.Mount(r.at(path), r.at(path), "", unix.MS_BIND, "")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = unix.Mount("", r.at(path), "",
				unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}
		if err != nil {
			return fmt.Errorf("making %s read-only: %w", path, err)
		}
	}
	return nil
}

func (r root) dev() error {
	if err := os.Mkdir(r.at("/dev"), 0o755); err != nil {
		return err
	}
	for _, name := range devices {
		path := "/dev/" + name
		if err := r.point(path, false); err != nil {
			return err
		}
		if err := unix.Mount(path, r.at(path), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("showing %s: %w", path, err)
		}
	}
	if err := os.Mkdir(r.at("/dev/shm"), 0o755); err != nil {
		return err
	}
	return unix.Mount("shm", r.at("/dev/shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=1777,size=65536k")
}

// pivot makes r the root, and takes the machine's files away. own is the path that r had, which the host's folder
// shows too.
func (r root) pivot(own string) error {
	old := r.at("/old")
	if err := os.Mkdir(old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(string(r), old); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for _, mount := range []string{"/old", own} {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", mount, err)
		}
	}
	return os.Remove("/old")
}

// Share makes the folder of a host one that its box can show: what is mounted below it is seen in the box, and its
// user can pass through it. Others cannot. It must be called before something is mounted below the folder. Repeating
// it changes nothing.
func Share(hostDir string) error {
	mounted, err := isMountPoint(hostDir)
	if err == nil && !mounted {
		err = unix.Mount(hostDir, hostDir, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = unix.Mount("", hostDir, "", unix.MS_SHARED, "")
	}
	if err == nil {
		err = PassThrough(hostDir)
	}
	if err != nil {
		return fmt.Errorf("sharing the folder %s with its programs: %w", hostDir, err)
	}
	return nil
}

// Unshare undoes Share. Nothing may be mounted below the folder. Not shared is success.
func Unshare(hostDir string) error {
	mounted, err := isMountPoint(hostDir)
	if err == nil && mounted {
		err = unix.Unmount(hostDir, unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("unmounting %s: %w", hostDir, err)
	}
	return nil
}

// isMountPoint reports whether something is mounted at a folder, also if it is a folder of the same file system.
func isMountPoint(dir string) (bool, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	points, err := platform.MountPoints()
	if err != nil {
		return false, err
	}
	for _, p := range points {
		if p == real {
			return true, nil
		}
	}
	return false, nil
}

// Forget removes what is kept of a box that has ended.
func Forget(hostDir string) error {
	err := os.Remove(filepath.Join(hostDir, boxFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
