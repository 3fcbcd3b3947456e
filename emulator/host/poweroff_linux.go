package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/confine"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/hnsd/serve"
	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/slow"
)

// powerOff ends everything that runs on the host but its HNS, and removes what its memory held. The registry is
// written first: wineserver does that when it ends. HNS goes on, because it stands for what its store has too; see
// rebootHNS.
func (h Host) powerOff() error {
	if err := confine.Stop(h.Dir, slow.Limit(30*time.Second)); err != nil {
		return err
	}

	hns, err := h.hnsPID()
	if err != nil {
		return fmt.Errorf("finding the host's HNS: %w", err)
	}
	err = killWhile(h.Name, func() ([]int, error) {
		pods, err := h.podNetworks()
		if err != nil {
			return nil, err
		}
		var all []int
		for _, path := range append(pods, platform.NetnsPath(h.Netns)) {
			pids, err := platform.NetnsPids(path)
			if err != nil {
				return nil, err
			}
			all = append(all, pids...)
		}
		return slices.DeleteFunc(all, func(pid int) bool { return pid == hns || parentOf(pid) == hns }), nil
	})
	if err != nil {
		return err
	}
	return errors.Join(h.removeContainers(), h.forgetContainers())
}

// podNetworks are the paths of the network namespaces of pods: those that a Linux containerd made, and those of the
// host's HNS.
func (h Host) podNetworks() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(h.containerdState(), "io.containerd.grpc.v1.cri", "netns", "*"))
	if err != nil {
		return nil, err
	}
	own, err := serve.OwnNetns(h.Dir)
	for _, name := range own {
		paths = append(paths, platform.NetnsPath(name))
	}
	return paths, err
}

// containerdState is the folder of what containerd keeps for as long as the machine runs.
func (h Host) containerdState() string { return filepath.Join(h.Dir, "containerd", "state") }

// forgetContainers removes what containerd keeps in memory or in a folder that does not outlive a boot (/run): mounts,
// network namespaces, the sockets and folders of its shims. What it has on disk stays, so that it knows the containers
// of before.
func (h Host) forgetContainers() error {
	mounts, err := platform.MountPointsBelow(h.Dir)
	if err != nil {
		return err
	}
	slices.Reverse(mounts)
	for _, m := range mounts {
		if m == h.Prefix().Dir { // the host's C:
			continue
		}
		if err := platform.Detach(m); err != nil {
			return fmt.Errorf("unmounting %s: %w", m, err)
		}
	}

	state := h.containerdState()
	shims, err := filepath.Glob(filepath.Join(state, "io.containerd.runtime.v2.task", "*", "*", "bootstrap.json"))
	if err != nil {
		return err
	}
	for _, file := range shims {
		if err := removeShimSocket(file); err != nil {
			return fmt.Errorf("removing the socket of a container's shim: %w", err)
		}
	}

	entries, err := os.ReadDir(state)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a host without containers
	}
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, beneath.RemoveAll(filepath.Join(state, e.Name())))
	}
	return errors.Join(errs...)
}

// removeShimSocket removes the socket that a shim named in its bootstrap file. It lies in a folder of the machine's
// /run.
func removeShimSocket(bootstrap string) error {
	data, err := os.ReadFile(bootstrap)
	if err != nil {
		return err
	}
	var shim struct {
		Address string `json:"address"`
	}
	_ = json.Unmarshal(data, &shim) // a file that was cut short names none
	path, ok := strings.CutPrefix(shim.Address, "unix://")
	if !ok {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// killWhile kills the processes that find lists until there are none.
func killWhile(what string, find func() ([]int, error)) error {
	for deadline := time.Now().Add(slow.Limit(10 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		pids, err := find()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("killing pid %d: %w", pid, err)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of %s do not end", len(pids), what)
		}
	}
}

// hnsPID returns the process that listens on the control socket of the host's HNS.
func (h Host) hnsPID() (int, error) {
	conn, err := net.Dial("unix", control.Socket(h.Dir))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		peer, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if optErr != nil {
		return 0, optErr
	}
	return int(peer.Pid), nil
}

// parentOf returns the parent of a process (field 4 of /proc/PID/stat, proc(5)), 0 if the process is gone.
func parentOf(pid int) int {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, ok := strings.Cut(string(data), ") ")
	if fields := strings.Fields(rest); err == nil && ok && len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}
