package cri

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// On Windows a start has returned when the program's process is there. Here runc has then started Wine's loader, which
// takes 0.2 s to get to the program, and seconds on a busy machine: in that time the container would count as running, and
// its log be empty. So the start waits until kernel32 is in the program's process, which comes right before the program's
// own code. Observed with Wine 8.0: all programs have it, the wineserver does not.
const firstLibrary = "/kernel32.dll"

const (
	loadedEvery = 10 * time.Millisecond // how often it is looked for
	loadedLimit = 10 * time.Second      // then the start returns anyway
	execLimit   = 30 * time.Second      // then an exec fails
)

// programs are those that containers were made for, as opposed to execs.
type programs struct{ containerd *containerd.Client }

// untilLoaded waits until the program of a started container is loaded, or has ended.
func (p programs) untilLoaded(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, loadedLimit)
	defer cancel()
	_ = p.waitLoaded(ctx, id) // the start has succeeded, however long the program takes
}

// beforeExec waits until a program can begin in the container besides the container's own. The launcher must have come to its own code:
// until then each of the two could wait five minutes for the other in Wine (booted in emulator/dll/launch.c). The error of a container
// that takes longer than limit has the code DeadlineExceeded, as that of a command that takes too long; limit 0 is execLimit.
func (p programs) beforeExec(ctx context.Context, id string, limit time.Duration) error {
	if limit <= 0 || limit > execLimit {
		limit = execLimit
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := p.waitLoaded(bounded, id); err != nil {
		return status.Errorf(codes.DeadlineExceeded,
			"exec in container %s: its own program is not loaded after %v, so that no other can be started beside it: %v", id, limit, err)
	}
	return nil
}

// waitLoaded waits until the program of a container is loaded, or has ended. For a container that does not run it returns at once. The
// error is that of ctx.
func (p programs) waitLoaded(ctx context.Context, id string) error {
	c, err := p.containerd.LoadContainer(ctx, id)
	if err != nil {
		return ctx.Err()
	}
	task, err := c.Task(ctx, nil)
	if err != nil {
		return ctx.Err() // it has ended
	}
	return process{proc: "/proc", pid: int(task.Pid())}.wait(ctx)
}

// wait returns when the process has loaded its program (see loaded), or with the error of ctx.
func (p process) wait(ctx context.Context) error {
	tick := time.NewTicker(loadedEvery)
	defer tick.Stop()
	for !p.loaded() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
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
