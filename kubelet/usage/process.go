package usage

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readTasks counts the processes of the cgroup itself, and with files what they have open.
func (r *Reader) readTasks(g *Group, files bool) {
	text, err := readFile(filepath.Join(r.dir("memory", g.Path), "cgroup.procs"))
	if err != nil {
		return
	}
	pids := strings.Fields(string(text))
	g.Tasks.Processes = uint64(len(pids))
	if len(pids) == 0 {
		return
	}

	g.Tasks.first = pids[0]
	if !files {
		return
	}
	for _, pid := range pids {
		r.readFiles(&g.Tasks, pid)
	}
	if limits, err := readFile(filepath.Join(r.proc, pids[0], "limits")); err == nil {
		for line := range strings.Lines(string(limits)) {
			if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
				soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				g.Tasks.HasOpenFiles = true
				if g.Tasks.OpenFiles, err = strconv.ParseInt(soft, 10, 64); err != nil {
					g.Tasks.OpenFiles = -1 // unlimited
				}
			}
		}
	}
}

// readFiles adds what one process has open. A process may end at any time.
func (r *Reader) readFiles(t *Tasks, pid string) {
	dir := filepath.Join(r.proc, pid, "fd")
	folder, err := os.Open(dir)
	if err != nil {
		return
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	t.Files += uint64(len(names))
	for _, name := range names {
		if target, err := os.Readlink(filepath.Join(dir, name)); err == nil && strings.HasPrefix(target, "socket:") {
			t.Sockets++
		}
	}
}

// readNetwork reads the interfaces of the network namespace of the first process, or of this one for the root. The
// loopback interface is left out.
func (r *Reader) readNetwork(g *Group) {
	pid := g.Tasks.first
	if g.Path == "/" {
		pid = "self"
	}
	if pid == "" {
		return
	}
	text, err := readFile(filepath.Join(r.proc, pid, "net", "dev"))
	if err != nil {
		return
	}

	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		// receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets errs drop …
		f := strings.Fields(rest)
		if !ok || len(f) < 12 || name == "lo" {
			continue
		}
		n := func(i int) uint64 { v, _ := strconv.ParseUint(f[i], 10, 64); return v }
		g.Interfaces = append(g.Interfaces, Interface{name, n(0), n(1), n(2), n(3), n(8), n(9), n(10), n(11)})
	}
}
