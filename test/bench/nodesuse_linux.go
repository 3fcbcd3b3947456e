package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/supervise"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/internal/platform"
)

// programUse is what the processes of one program have in use together.
type programUse struct {
	Processes int     `json:"processes"`
	MB        float64 `json:"mb"`
	// CPU is the processor time since their start, in seconds, with that of children that have ended.
	CPU float64 `json:"cpu"`
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

// clusterUse returns what the processes of the cluster in a folder use, by program and altogether. Memory is the
// proportional set size in MB of 10^6 bytes: a page that several processes share counts once. A process that ends
// meanwhile is left out.
func clusterUse(dir string) (by map[string]programUse, total programUse, err error) {
	pids, all, err := clusterProcesses(dir)
	if err != nil {
		return nil, total, err
	}
	by, total = programUses(pids, all)
	return by, total, nil
}

// programUses returns what processes use, by program and altogether. all are the processes of the machine.
func programUses(pids []int, all map[int]processStat) (by map[string]programUse, total programUse) {
	by = map[string]programUse{}
	for _, pid := range pids {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		// smaps_rollup of a process that has ended, or of a kernel thread, has no figure.
		pss := proportionalMB(pid)
		if err != nil || len(args) == 0 || pss == 0 {
			continue
		}

		name := programName(strings.Split(string(args), "\x00"))
		cpu := all[pid].cpu
		u := by[name]
		by[name] = programUse{Processes: u.Processes + 1, MB: round(u.MB + pss), CPU: round(u.CPU + cpu)}
		total = programUse{Processes: total.Processes + 1, MB: total.MB + pss, CPU: total.CPU + cpu}
	}
	return by, total
}

// programName is the program of a command line, with its subcommand if it is ours.
// Paths of Windows programs have backslashes. Ours is one program with many subcommands, which
// count apart.
func programName(args []string) string {
	path := strings.ReplaceAll(args[0], `\`, "/")
	name := filepath.Base(path)
	if len(args) > 1 && (name == "porthole" || name == "porthole-host" || name == "porthole.exe" || name == "kube") {
		name += " " + args[1]
	}
	return name
}

// proportionalMB is the proportional set size of a process in MB of 10^6 bytes; 0 if it has ended
// or has no memory of its own.
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

// clusterProcesses are the supervisors of the cluster in a folder, what is in the network namespaces of its hosts, and
// the children of all these: containers have namespaces of their own. all are the processes of the machine.
func clusterProcesses(dir string) (pids []int, all map[int]processStat, err error) {
	active, standby := supervise.Supervisors(layout.Layout{Dir: dir}.RunDir())
	todo := []int{active.PID, standby.PID}
	hosts, err := host.Store{Dir: dir}.List()
	if err != nil {
		return nil, nil, err
	}
	for _, h := range hosts {
		inside, err := platform.NetnsPids(platform.NetnsPath(h.Netns))
		if err != nil {
			return nil, nil, err
		}
		todo = append(todo, inside...)
	}

	if all, err = processStats(); err != nil {
		return nil, nil, err
	}
	// Descendants are found by their parents, breadth first. A process may be reachable in two ways
	// and counts once.
	children := map[int][]int{}
	for pid, s := range all {
		children[s.parent] = append(children[s.parent], pid)
	}
	known := map[int]bool{0: true} // the pid of a supervisor that does not run
	for len(todo) > 0 {
		pid := todo[0]
		todo = todo[1:]
		if !known[pid] {
			known[pid] = true
			pids = append(pids, pid)
			todo = append(todo, children[pid]...)
		}
	}
	return pids, all, nil
}

// processStat is what the kernel says of a process.
type processStat struct {
	parent int
	cpu    float64 // as programUse.CPU
}

const ticksPerSecond = 100 // of the times in /proc on every Linux architecture that Go runs on (USER_HZ)

// processStats reads /proc/*/stat (proc_pid_stat(5)) of every process.
func processStats() (map[int]processStat, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]processStat{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold spaces. After it come state and parent, and as fields 12 to 15 the
		// processor times.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 15 {
			continue
		}

		var s processStat
		if s.parent, err = strconv.Atoi(fields[1]); err != nil {
			continue
		}
		for _, field := range fields[11:15] {
			ticks, err := strconv.ParseFloat(field, 64)
			if err == nil {
				s.cpu += ticks / ticksPerSecond
			}
		}
		all[pid] = s
	}
	return all, nil
}
