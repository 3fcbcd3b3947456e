package cri

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// On Windows a start has returned when the program's process is there. Here runc has then started Wine's loader, which
// takes 0.2 s to get to the program, and seconds on a busy machine: in that time the container would count as running, and
// its log be empty. So the start waits until kernel32 is in the program's process, which comes right before the program's
// own code. Observed with Wine 8.0: all programs have it, the wineserver does not.
const firstLibrary = "/kernel32.dll"

const (
	loadedEvery = 10 * time.Millisecond // how often it is looked for
	loadedLimit = 10 * time.Second      // then the start returns anyway
)

// untilLoaded waits until the program of a started container is loaded, or has ended.
func (s *Server) untilLoaded(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, loadedLimit)
	defer cancel()
	c, err := s.containerd.LoadContainer(ctx, id)
	if err != nil {
		return
	}
	task, err := c.Task(ctx, nil)
	if err != nil {
		return // it has ended
	}
	first := process{proc: "/proc", pid: int(task.Pid())}
	tick := time.NewTicker(loadedEvery)
	defer tick.Stop()
	for !first.loaded() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// process is one of a container, as a proc file system shows it.
type process struct {
	proc string
	pid  int
}

// loaded reports whether a container's program is loaded or has ended. It is a child of the first process, the launcher.
func (p process) loaded() bool {
	maps, err := os.ReadFile(p.file("maps"))
	if err != nil || len(maps) == 0 { // it has ended
		return true
	}
	for _, child := range p.children() {
		if maps, err := os.ReadFile(child.file("maps")); err == nil && hasFirstLibrary(maps) {
			return true
		}
	}
	return false
}

func (p process) file(name ...string) string {
	return filepath.Join(append([]string{p.proc, strconv.Itoa(p.pid)}, name...)...)
}

func hasFirstLibrary(maps []byte) bool { return bytes.Contains(maps, []byte(firstLibrary+"\n")) }

// children are those of all threads. Wine gives each program it starts to the container's first process.
func (p process) children() []process {
	lists, err := filepath.Glob(p.file("task", "*", "children"))
	if err != nil {
		return nil
	}
	var all []process
	for _, name := range lists {
		list, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(list)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, process{p.proc, pid})
			}
		}
	}
	return all
}
