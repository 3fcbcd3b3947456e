package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/cluster"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/platform"
)

// programMemory is what the processes of one program have in use together.
type programMemory struct {
	Processes int     `json:"processes"`
	MB        float64 `json:"mb"`
}

// availableMB is how much memory programs could still get on the machine, in MB of 10^6 bytes.
func availableMB() (float64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %f kB", &kib); n == 1 {
			return kib * 1024 / 1e6, nil
		}
	}
	return 0, errors.New("/proc/meminfo says no MemAvailable")
}

// clusterMemory returns the proportional set size of the processes of the cluster in a folder, by program and altogether, in MB of
// 10^6 bytes. A page that several processes share counts once. A process that ends meanwhile is left out.
func clusterMemory(dir string) (by map[string]programMemory, total float64, err error) {
	pids, err := clusterProcesses(dir)
	if err != nil {
		return nil, 0, err
	}
	by = map[string]programMemory{}
	for _, pid := range pids {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		pss := proportionalMB(pid)
		if err != nil || len(args) == 0 || pss == 0 {
			continue
		}
		name := programName(strings.Split(string(args), "\x00"))
		m := by[name]
		by[name] = programMemory{Processes: m.Processes + 1, MB: round(m.MB + pss)}
		total += pss
	}
	return by, total, nil
}

// programName is the program of a command line, with its subcommand if it is ours.
func programName(args []string) string {
	path := strings.ReplaceAll(args[0], `\`, "/")
	name := filepath.Base(path)
	if len(args) > 1 && (name == "porthole" || name == "porthole.exe" || name == "kube") {
		name += " " + args[1]
	}
	return name
}

func proportionalMB(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "Pss: %f kB", &kib); n == 1 {
			return kib * 1024 / 1e6
		}
	}
	return 0
}

// clusterProcesses are the supervisors of the cluster in a folder, what is in the network namespaces of its hosts, and the children
// of all these: containers have namespaces of their own.
func clusterProcesses(dir string) ([]int, error) {
	active, standby := supervise.Supervisors(cluster.Layout{Dir: dir}.RunDir())
	pids := []int{active.PID, standby.PID}
	hosts, err := host.Store{Dir: dir}.List()
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		inside, err := platform.NetnsPids(platform.NetnsPath(h.Netns))
		if err != nil {
			return nil, err
		}
		pids = append(pids, inside...)
	}

	children, err := processChildren()
	if err != nil {
		return nil, err
	}
	known := map[int]bool{0: true} // the pid of a supervisor that does not run
	var found []int
	for len(pids) > 0 {
		pid := pids[0]
		pids = pids[1:]
		if !known[pid] {
			known[pid] = true
			found = append(found, pid)
			pids = append(pids, children[pid]...)
		}
	}
	return found, nil
}

// processChildren returns the children of every process.
func processChildren() (map[int][]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold spaces; state and parent follow it (proc_pid_stat(5)).
		after := string(data[strings.LastIndexByte(string(data), ')')+1:])
		fields := strings.Fields(after)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	return children, nil
}
