package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/internal/platform"
)

// WineProcess is one process of Wine as it was seen: a later process may get its number, but not its time too.
type WineProcess struct {
	PID int
	// Began is the kernel's time of its start (field 22 of /proc/PID/stat, proc(5)).
	Began string
	// Container says that it is in a container of the host. Kernel says that it is a wineserver: outside a container,
	// the host's own.
	Container, Kernel bool
	Line              string // of its command, for messages
}

// WineProcesses are the programs of an emulated Windows host and of its containers, by their ids. hostDir is the
// host's folder.
func WineProcesses(hostDir string) (map[int]WineProcess, error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	all := map[int]WineProcess{}
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		environment := platform.ProcessEnviron(pid) // "" of one that has ended
		if !strings.Contains(environment, "WINEPREFIX=") {
			continue
		}

		p := WineProcess{PID: pid}
		groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		p.Container = bytes.Contains(groups, []byte("/porthole/"+filepath.Base(hostDir)+"/hcs/"))
		if !p.Container && !strings.Contains(environment, "WINEPREFIX="+hostDir+"/") {
			continue
		}

		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		p.Kernel = strings.HasPrefix(filepath.Base(exe), "wineserver")
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		p.Line = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && len(strings.Fields(rest)) > 19 {
			p.Began = strings.Fields(rest)[19]
			all[pid] = p
		}
	}
	return all, err
}

// StillRunning returns an error that names those of before which still run.
func StillRunning(hostDir string, before map[int]WineProcess) error {
	now, err := WineProcesses(hostDir)
	if err != nil {
		return err
	}
	for pid, p := range now {
		if before[pid].Began == p.Began {
			return fmt.Errorf("pid %d still runs: %s", pid, p.Line)
		}
	}
	return nil
}
