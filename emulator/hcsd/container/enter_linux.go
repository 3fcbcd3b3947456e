package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/confine"
)

// `runc exec` starts itself three times, and copies itself into memory, before it starts a program: 25 ms, twice for
// each pod. Version 1.1 cannot do it at all here: it enters the user namespace first, and may not enter the network
// namespace then, which is not the container's. A program of a container is therefore started by a thread of ours that
// has entered the container's namespaces but for that of users, which a process of many threads cannot enter. runc
// knows nothing of it, as of what the container's programs start themselves.

// namespaces of a container in the order in which they are entered: that of mounts last, because files of the others
// are not in it.
var namespaces = []struct {
	name string
	kind int
}{{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"net", unix.CLONE_NEWNET}, {"pid",
	unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}}

// enterUsers is the command line that enters the user namespace in file 3, becomes its root, and gives up all rights
// there: programs of util-linux, which containers have too.
var enterUsers = []string{confine.Nsenter, "--user=/proc/self/fd/3", "--setuid=0", "--setgid=0", "--", confine.Setpriv,
	"--bounding-set=-all", "--no-new-privs"}

// enter starts a program in the container whose first process is init, with these standard streams, and returns the
// program's first process. What it starts before enter returns may be in none of the container's cgroups.
func (r runc) enter(key string, init Process, p runtimeProcess, files [3]*os.File) (Process, error) {
	cgroups, err := r.cgroupsOf(key)
	if err != nil {
		return Process{}, err
	}
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", init.Pid))
	if err != nil {
		return Process{}, fmt.Errorf("starting a program in container %s: %w", key, err)
	}
	defer users.Close()
	args := append(slices.Clone(enterUsers), p.Args...)
	cmd := &exec.Cmd{Path: args[0], Args: args, Env: p.Env, Dir: p.Cwd, Stdin: files[0], Stdout: files[1],
		Stderr:     files[2],
		ExtraFiles: []*os.File{users}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := startInside(cmd, init); err != nil {
		return Process{}, fmt.Errorf("starting a program in container %s: %w", key, err)
	}

	started, err := ProcessOf(cmd.Process.Pid)
	for _, dir := range cgroups {
		if err == nil { // the first of them takes 10 ms, for which the program does not wait
			err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(started.Pid)), 0)
		}
	}
	if err != nil {
		_ = cmd.Process.Kill() // it may have ended
	}
	go func() { _ = cmd.Wait() }() // its exit code is in a file
	if err != nil {
		return Process{}, fmt.Errorf("starting a program in container %s: %w", key, err)
	}
	return started, nil
}

// cgroupsOf are the folders of a container's cgroups.
func (r runc) cgroupsOf(key string) (dirs []string, err error) {
	var state struct {
		CgroupPaths map[string]string `json:"cgroup_paths"` // by controller; by "" in version 2 of cgroups
	}
	data, err := os.ReadFile(filepath.Join(r.root, key, "state.json"))
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what runc keeps of container %s: %w", key, err)
	}
	for _, dir := range state.CgroupPaths {
		_, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a controller that this machine has not
		}
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// startInside starts a command in the namespaces of init, with a container's filter of system calls. The thread that
// has entered them ends.
func startInside(cmd *exec.Cmd, init Process) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: with the goroutine the thread ends
		err := enterNamespaces(init)
		if err == nil {
			// by which the program's user namespace is entered; without rights it enters none
			err = confine.FilterCalls("setns")
		}
		if err == nil {
			err = cmd.Start()
		}
		done <- err
	}()
	return <-done
}

// enterNamespaces takes the calling thread into the namespaces of init; that of processes is for what it starts.
func enterNamespaces(init Process) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, ns := range namespaces {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", init.Pid, ns.name))
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	if !init.Alive() {
		return errors.New("the container has ended")
	}

	// a thread that shares its folder with others cannot enter a namespace of mounts
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	for i, ns := range namespaces {
		if err := unix.Setns(int(files[i].Fd()), ns.kind); err != nil {
			return fmt.Errorf("entering its namespace %s: %w", ns.name, err)
		}
	}
	return nil
}
