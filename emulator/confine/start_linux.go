package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// entered are the namespaces of a box's first process, in the order in which they are entered: that of mounts last,
// because files of the others are not in it.
var entered = []struct {
	name string
	kind int
}{{"ipc", unix.CLONE_NEWIPC}, {"net", unix.CLONE_NEWNET}, {"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}}

// startLimit is how long the first process of a box may take until programs can be started in it.
const startLimit = 30 * time.Second

// Start starts a command in the box of a host, once the box is there. The command's paths are those of the box; its
// network is the host's. It is a child of this process. If it has Pdeathsig, it gets the signal when this process ends.
// Without a folder of its own it works in C:\, so that paths without a drive, as \var\log, are on C:; else they would
// be on Wine's Z:, which is the root of the box.
func Start(ctx context.Context, hostDir string, cmd *exec.Cmd) error {
	init, err := await(ctx, hostDir)
	if err != nil {
		return fmt.Errorf("starting a program of %s: %w", hostDir, err)
	}

	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: wine.Owner, Gid: wine.Owner}
	if cmd.Dir == "" {
		cmd.Dir = wine.Prefix{Dir: filepath.Join(hostDir, "prefix")}.DriveC()
	}
	bound := cmd.SysProcAttr.Pdeathsig != 0
	if bound {
		// Go asks the new process for its parent, which no process of a box sees, and kills it.
		cmd.Path, cmd.Args = Setpriv, append([]string{Setpriv, "--pdeathsig",
			strings.TrimPrefix(unix.SignalName(cmd.SysProcAttr.Pdeathsig), "SIG")}, cmd.Args...)
		cmd.SysProcAttr.Pdeathsig = 0
	}
	return onThread(cmd, bound, func() error {
		if err := init.enter(); err != nil {
			return fmt.Errorf("entering the box of %s: %w", hostDir, err)
		}
		if err := limit(); err != nil {
			return err
		}
		return cmd.Start()
	})
}

// Setpriv and Nsenter are programs of util-linux that change the rights and the namespaces of a program before it
// starts.
const (
	Setpriv = "/usr/bin/setpriv"
	Nsenter = "/usr/bin/nsenter"
)

// onThread runs start on a thread of its own, which ends with it. To Linux it is this thread that is the parent of
// what it starts, so that the thread of a bound command, which ends with its parent, waits for the end of that.
func onThread(cmd *exec.Cmd, bound bool, start func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: with the goroutine the thread ends
		err := start()
		pid := 0
		if err == nil && bound {
			pid = cmd.Process.Pid
		}
		done <- err
		if pid != 0 {
			awaitEnd(pid)
		}
	}()
	return <-done
}

// awaitEnd returns when a child has ended. It must not be reaped before: its number is given only then.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// await returns the first process of the box of a host, when programs can be started there.
func await(ctx context.Context, hostDir string) (first, error) {
	ctx, cancel := context.WithTimeout(ctx, slow.Limit(startLimit))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		init, err := running(hostDir)
		if err == nil {
			return init, nil
		}
		select {
		case <-ctx.Done():
			return init, fmt.Errorf("its wineserver does not run: %w", err)
		case <-tick.C:
		}
	}
}

// running finds the first process of the box of a host; an error if there is no box.
func running(hostDir string) (init first, err error) {
	data, err := os.ReadFile(filepath.Join(hostDir, boxFile))
	if err == nil {
		err = json.Unmarshal(data, &init)
	}
	if err != nil {
		return init, err
	}
	start, err := platform.ProcessStart(init.Pid)
	if err == nil && start != init.Start {
		err = fmt.Errorf("process %d has ended", init.Pid)
	}
	return init, err
}

// Running reports whether programs can be started in the box of a host.
func Running(hostDir string) bool {
	_, err := running(hostDir)
	return err == nil
}

// Stop has the wineserver of a host's box write the registry and end, which ends all programs of the box, and waits
// for that, at most for limit. No box is success.
func Stop(hostDir string, limit time.Duration) error { return end(hostDir, unix.SIGTERM, limit) }

// End kills the wineserver of a host's box, which ends all programs of the box, and waits for that, at most for limit.
// No box is success.
func End(hostDir string, limit time.Duration) error { return end(hostDir, unix.SIGKILL, limit) }

func end(hostDir string, sig unix.Signal, limit time.Duration) error {
	init, err := running(hostDir)
	if err != nil {
		return nil
	}
	if err := unix.Kill(init.Pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending the programs of %s: %w", hostDir, err)
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if start, err := platform.ProcessStart(init.Pid); err != nil || start != init.Start {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("ending the programs of %s: process %d does not end", hostDir, init.Pid)
		}
	}
}

// InnerPid returns the number that a process of a box has in the box: the last one of NSpid in proc_pid_status(5). It
// returns pid itself for a process that has ended.
func InnerPid(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return pid
	}
	for line := range strings.Lines(string(data)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(numbers)
			if inner, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
				return inner
			}
		}
	}
	return pid
}

// Alive reports whether a process of a host's box runs; pid is its number in the box.
func Alive(hostDir string, pid int) bool {
	init, err := running(hostDir)
	if err != nil {
		return false
	}
	_, err = os.Lstat(fmt.Sprintf("/proc/%d/root/proc/%d", init.Pid, pid))
	return err == nil
}

// enter takes the calling thread into the namespaces of the box; that of processes is for what it starts.
func (init first) enter() error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, ns := range entered {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", init.Pid, ns.name))
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if start, err := platform.ProcessStart(init.Pid); err != nil || start != init.Start {
		return errors.New("it has ended")
	}

	// a thread that shares its folder with others cannot enter a namespace of mounts
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	for i, ns := range entered {
		if err := unix.Setns(int(files[i].Fd()), ns.kind); err != nil {
			return fmt.Errorf("its namespace %s: %w", ns.name, err)
		}
	}
	return nil
}

// ErrCovers says that a folder of the machine cannot be mounted in a host's box, because a mount of the box lies at
// that path or below and would be hidden.
var ErrCovers = errors.New("it would cover what the host needs: show a folder below, or move what is to be shown")

// Show mounts a folder or file of the machine in the box, read-only and at the same path, until hide is called.
// Programs of the machine's folders run on a host in this way. All programs in the box can read what is shown.
func Show(ctx context.Context, hostDir, path string) (hide func() error, err error) {
	init, err := await(ctx, hostDir)
	if err == nil {
		err = init.show(path)
	}
	if err != nil {
		return nil, fmt.Errorf("showing %s to %s: %w", path, hostDir, err)
	}
	return func() error {
		return init.inside(func() error { return unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) })
	}, nil
}

func (init first) show(path string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	points, err := platform.MountPointsOf(init.Pid)
	if err != nil {
		return err
	}

	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE}
	return init.inside(func() error {
		for _, point := range points {
			if rel, err := filepath.Rel(path, point); err == nil && filepath.IsLocal(rel) && !same(tree, rel, point) {
				return fmt.Errorf("%w (%s)", ErrCovers, point)
			}
		}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return err
		}
		point, err := mountPoint(path, st.Mode)
		if err != nil {
			return err
		}
		defer point.Close()
		return unix.MoveMount(tree, "", int(point.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// same reports whether the file at rel in an open tree is the one at a path, as when another command shows it already.
func same(tree int, rel, path string) bool {
	var theirs, here unix.Stat_t
	if unix.Fstatat(tree, rel, &theirs, 0) != nil || unix.Stat(path, &here) != nil {
		return false
	}
	return theirs.Dev == here.Dev && theirs.Ino == here.Ino
}

// mountPoint opens the folder or file to mount on, by the mode of what is mounted, and makes it if it is not there. A
// link on the way is an error: programs of the box can have made it.
func mountPoint(path string, mode uint32) (*os.File, error) {
	at, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	elements := strings.Split(strings.Trim(path, "/"), "/")
	for i, name := range elements {
		last := i == len(elements)-1
		next, err := placeIn(at, name, !last || mode&unix.S_IFMT == unix.S_IFDIR)
		at.Close()
		if err != nil {
			return nil, &os.PathError{Op: "making a place to mount", Path: path, Err: err}
		}
		at = next
	}
	return at, nil
}

// placeIn opens the folder or the file with a name in an open folder. It makes an empty one if there is none. A link of
// that name is an error.
func placeIn(folder *os.File, name string, isDir bool) (*os.File, error) {
	var err error
	if isDir {
		err = unix.Mkdirat(int(folder.Fd()), name, 0o755)
	} else {
		err = unix.Mknodat(int(folder.Fd()), name, unix.S_IFREG|0o644, 0)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}

	place := os.NewFile(uintptr(fd), name)
	if info, err := place.Stat(); err != nil || info.IsDir() != isDir || !isDir && !info.Mode().IsRegular() {
		place.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is a link, or of another kind, in the box", name))
	}
	return place, nil
}

// inside runs f on a thread of its own in the namespaces of the box.
func (init first) inside(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good
		err := init.enter()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}
