package ownroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Variable says in the environment of a program which folder it runs with.
const Variable = "PORTHOLE_ROOT"

// Inside returns the folder that this program runs with; "" is the machine's own programs.
func Inside() string { return os.Getenv(Variable) }

// ofMachine are folders below /usr that stay the machine's: what is installed there is none of a distribution's
// packages. The root folder has empty ones to mount them on.
var ofMachine = []string{"/usr/local", "/usr/lib/porthole"}

// cache tells where libraries are. The machine's is wrong for others than its own.
const cache = "/etc/ld.so.cache"

// searchPath is Debian's, in front of the machine's, which may lack folders that the root has.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// tree is a mount, of a folder or file with what is mounted below it, that lies nowhere yet.
type tree struct {
	file int
	at   string
}

// Enter runs a program in the place of this one, with the programs and libraries of the folder dir. The program is a
// path, and must not lie in what the folder takes the place of. Enter returns only if it fails; then this process must
// end, because one of its threads may be elsewhere.
func Enter(dir string, argv, env []string) error {
	if err := Check(dir); err != nil {
		return err
	}
	runtime.LockOSThread() // the thread becomes the program
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := enter(dir); err != nil {
		return fmt.Errorf("showing the root folder %s in the place of /usr: %w", dir, err)
	}
	if err := os.Chdir(here); err != nil {
		return err
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, Variable+"=") || strings.HasPrefix(v, "PATH=")
	})
	err = syscall.Exec(argv[0], argv, append(env, Variable+"="+dir, searchPath+":"+os.Getenv("PATH")))
	return fmt.Errorf("starting %s with the root folder %s: %w", argv[0], dir, err)
}

func enter(dir string) error {
	if err := errors.Join(makeMissing(), share()); err != nil {
		return err
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	files := map[string]string{}
	for _, name := range accountFiles {
		text, err := accounts(dir, name)
		if err != nil {
			return err
		}
		if text != "" {
			files[name] = text
		}
	}
	trees, links, err := take(dir, entries)
	if err != nil {
		return err
	}

	// From here on nothing is seen on the other side but what happens in the trees: they were taken before.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	base := dir // any folder: it is not seen any more
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	for at, target := range links {
		if err := os.Symlink(target, filepath.Join(base, at)); err != nil {
			return err
		}
	}
	for _, t := range trees {
		if err := t.put(base); err != nil {
			return fmt.Errorf("%s: %w", t.at, err)
		}
	}
	if err := putAccounts(base, files); err != nil {
		return err
	}
	return pivot(base)
}

// share makes the machine's mounts ones that others can share, but for those of the kernel's own file systems. Network
// namespaces show why: their names are files with mounts on them, and a program that removes such a file of another
// mount namespace takes the mount away there.
func share() error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		// ID PARENT DEVICE ROOT POINT OPTIONS [FIELDS...] - ... (proc_pid_mountinfo(5))
		before, _, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if len(f) < 6 || strings.Contains(before, " shared:") || ofKernel.MatchString(f[4]) {
			continue
		}
		// others may go away meanwhile
		if err := unix.Mount("", f[4], "", unix.MS_SHARED, ""); err != nil && f[4] == "/" {
			return err
		}
	}
	return nil
}

var ofKernel = regexp.MustCompile(`^/(proc|sys|dev)(/|$)`)

// take opens what the new root consists of, in the order in which it is put together.
func take(dir string, entries []fs.DirEntry) (trees []tree, links map[string]string, err error) {
	links = map[string]string{}
	open := func(from, at string, attr unix.MountAttr) error {
		file, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err == nil && attr != (unix.MountAttr{}) {
			err = unix.MountSetattr(file, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		trees = append(trees, tree{file, at})
		return nil
	}

	for _, e := range entries {
		at := "/" + e.Name()
		attr := unix.MountAttr{}
		switch {
		case ofSystem(at) || !e.IsDir() && e.Type()&fs.ModeSymlink == 0:
			continue
		case e.Type()&fs.ModeSymlink != 0:
			links[at], err = os.Readlink(at)
		case at == "/etc": // a file is put into it, which the machine's must not get
			attr.Propagation = unix.MS_PRIVATE
			err = open(at, at, attr)
		default:
			err = open(at, at, attr)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return trees, links, takeOwn(dir, links, open)
}

// ofSystem reports whether an entry of the machine's root is one that the folder has too.
func ofSystem(at string) bool {
	return at == "/usr" || at == "/bin" || at == "/sbin" || strings.HasPrefix(at, "/lib")
}

// takeOwn opens /usr and the library cache of the root folder, and the folders below /usr that stay the machine's.
func takeOwn(dir string, links map[string]string, open func(from, at string, attr unix.MountAttr) error) error {
	readonly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
	if err := open(filepath.Join(dir, "usr"), "/usr", readonly); err != nil {
		return err
	}
	for _, at := range ofMachine {
		_, mine := os.Stat(at)
		_, theirs := os.Stat(filepath.Join(dir, at))
		if mine != nil || theirs != nil {
			continue
		}
		if err := open(at, at, unix.MountAttr{}); err != nil {
			return err
		}
	}
	own, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range own {
		if at := "/" + e.Name(); ofSystem(at) && e.Type()&fs.ModeSymlink != 0 {
			if links[at], err = os.Readlink(filepath.Join(dir, at)); err != nil {
				return err
			}
		}
	}

	if _, err := os.Stat(cache); err != nil { // libraries are found without it too
		return nil
	}
	return open(filepath.Join(dir, cache), cache, readonly)
}

// put mounts a tree in the new root. What it is mounted on is made where the new root's own file system is.
func (t tree) put(base string) error {
	at := filepath.Join(base, t.at)
	if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := unix.MoveMount(t.file, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	return errors.Join(err, unix.Close(t.file))
}

// pivot makes base the root and takes the machine's away.
func pivot(base string) error {
	if err := os.Chdir(base); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root lies over the new one (pivot_root(2))
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("taking away the old root: %w", err)
	}
	return os.Chdir("/")
}
