package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/winhost"
)

// hostUse returns what the processes of an emulated host use, those of its pods among them, by program and altogether,
// as clusterUse does.
func hostUse(h *winhost.Host) (by map[string]programUse, total programUse, err error) {
	pids, err := hostProcesses(h)
	if err != nil {
		return nil, total, err
	}
	all, err := processStats()
	if err != nil {
		return nil, total, err
	}
	by, total = programUses(pids, all)
	return by, total, nil
}

// hostProcesses are those in the host's network namespace, and those in the cgroups of its containers, which have
// namespaces of their own.
func hostProcesses(h *winhost.Host) ([]int, error) {
	pids, err := platform.NetnsPids(h.Netns())
	if err != nil {
		return nil, err
	}
	known := map[int]bool{}
	for _, pid := range pids {
		known[pid] = true
	}

	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	// The cgroup of a container holds the name of its host. A process may be found twice: those of
	// HostProcess containers are in the namespace of the host too.
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), "/porthole/"+h.Name+"/") {
			continue // or it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if !known[pid] {
			known[pid] = true
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// programsOf are the processes of a host whose program, a Windows program, has that name.
func programsOf(h *winhost.Host, name string) (found []int, err error) {
	pids, err := hostProcesses(h)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		program, _, _ := strings.Cut(string(data), "\x00")
		if err == nil && strings.HasSuffix(strings.ToLower(program), `\`+name) { // else it has ended
			found = append(found, pid)
		}
	}
	return found, nil
}
