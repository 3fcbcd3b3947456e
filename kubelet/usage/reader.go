package usage

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"porthole.dev/porthole/kubelet/cgroup"
)

// slow is how long one cgroup may take. A cgroup takes less than a millisecond unless something is broken or the
// machine has no time.
const slow = 150 * time.Millisecond

// Reader reads cgroups. It is safe for concurrent use. Make it with New.
type Reader struct {
	cgroups, proc, devices string // where these are: /sys/fs/cgroup, /proc, /sys/dev/block
	unified                bool
	took                   func() // called before each cgroup, for tests; nil
	slow                   time.Duration
	size                   func(path string, fs *Filesystem) bool // reads how large a file system is
	mu                     sync.Mutex
	stuck                  map[string]bool   // cgroups that did not answer in time and have not yet, by path
	names                  map[string]string // of devices, by major:minor
}

// New returns a reader of this machine's cgroups. It returns nil if there are none.
func New() *Reader {
	r := at("/sys/fs/cgroup", "/proc", "/sys/dev/block")
	if !r.unified && !exists(filepath.Join(r.cgroups, "memory", "memory.usage_in_bytes")) {
		return nil
	}
	return r
}

// at returns a reader of files in other places than the system's, if tests ask for them.
func at(cgroups, proc, devices string) *Reader {
	return &Reader{slow: slow, size: sizeOf, cgroups: cgroups, proc: proc, devices: devices,
		unified: exists(filepath.Join(cgroups, "cgroup.controllers")),
		stuck:   map[string]bool{}, names: map[string]string{}}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// One reads one cgroup. It returns false if there is none, or if it does not answer.
func (r *Reader) One(path string) (Group, bool) {
	if r == nil {
		return Group{}, false
	}
	return r.bounded(path, false)
}

// Trees reads the cgroups at these paths, and those below the one called pods: the classes, pods and containers. What
// is away is left out. The root, "/", is that of the whole machine. pods may be empty, as long as it is not known.
func (r *Reader) Trees(ctx context.Context, pods string, others ...string) []Group {
	if r == nil {
		return nil
	}
	var out []Group
	for _, p := range append(slices.Clone(others), r.below(pods)...) {
		if ctx.Err() != nil {
			break
		}
		if g, ok := r.bounded(p, p == "/" || pods != "" && strings.HasPrefix(p, pods)); ok {
			out = append(out, g)
		}
	}
	return out
}

// below returns the cgroup of all pods, those of their classes, and those of pods and containers.
func (r *Reader) below(top string) (out []string) {
	if top == "" || !exists(r.dir("memory", top)) {
		return nil
	}
	out = append(out, top)
	pods := r.children(top)
	for _, class := range slices.Clone(pods) {
		if name := cgroup.NameIn(class); name == "burstable" || name == "besteffort" {
			out = append(out, class)
			pods = append(pods, r.children(class)...)
		}
	}
	for _, pod := range pods {
		if strings.HasPrefix(cgroup.NameIn(pod), "pod") {
			out = append(out, pod)
			out = append(out, r.children(pod)...)
		}
	}
	return out
}

// children are the cgroups directly below one.
func (r *Reader) children(group string) (out []string) {
	entries, _ := os.ReadDir(r.dir("memory", group)) // it may be gone by now
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, path.Join(group, e.Name()))
		}
	}
	return out
}

// bounded reads a cgroup, in at most slow. One that takes longer is not read again until it has been.
func (r *Reader) bounded(group string, deep bool) (Group, bool) {
	r.mu.Lock()
	stuck := r.stuck[group]
	r.mu.Unlock()
	if stuck {
		return Group{}, false
	}

	type answer struct {
		group Group
		ok    bool
	}
	done, over := make(chan answer, 1), false // over is guarded by r.mu
	go func() {
		g, ok := r.read(group, deep)
		r.mu.Lock()
		over = true
		delete(r.stuck, group)
		r.mu.Unlock()
		done <- answer{g, ok}
	}()

	timer := time.NewTimer(r.slow)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.group, a.ok
	case <-timer.C:
		r.mu.Lock()
		defer r.mu.Unlock()
		if !over {
			r.stuck[group] = true
		}
		return Group{}, false
	}
}

// read reads a cgroup; deep reads its processes and network too.
func (r *Reader) read(group string, deep bool) (g Group, ok bool) {
	if r.took != nil {
		r.took()
	}
	info, err := os.Stat(r.dir("memory", group))
	if err != nil {
		return g, false
	}

	g = Group{Path: group, At: time.Now(), Created: info.ModTime()}
	// The time of a folder changes with what is made below it, that of this file does not.
	steady := "cgroup.clone_children"
	if r.unified {
		steady = "cgroup.events"
	}
	if f, err := os.Stat(filepath.Join(r.dir("memory", group), steady)); err == nil && f.ModTime().Before(g.Created) {
		g.Created = f.ModTime()
	}
	if r.unified {
		r.readV2(&g)
	} else {
		r.readV1(&g)
	}
	g.Memory.WorkingSet = g.Memory.Usage - min(g.Memory.Usage, g.Memory.InactiveFile)
	r.readTasks(&g, deep && group != "/")
	if deep {
		r.readNetwork(&g)
	}
	if deep && group == "/" {
		r.readFilesystems(&g)
	}
	return g, true
}

// dir is the folder of a cgroup; controller matters with version 1 only.
func (r *Reader) dir(controller, group string) string {
	if r.unified {
		return filepath.Join(r.cgroups, group)
	}
	return filepath.Join(r.cgroups, controller, group)
}

// readFile does what os.ReadFile does, for the short files below /sys and /proc, with three system calls in place of
// seven: one page of metrics reads thousands of them.
func readFile(file string) ([]byte, error) {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var first [4096]byte
	out := []byte(nil)
	for {
		n, err := syscall.Read(fd, first[:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, first[:max(n, 0)]...)
		if n < len(first) { // the kernel gives such files as a whole
			return out, nil
		}
	}
}

// number reads a file with one number. It returns 0 for a file that is away, and for max.
func number(file string) uint64 {
	n, _ := numberIn(file)
	return n
}

// numberIn is number. ok is false if there is no number.
func numberIn(file string) (n uint64, ok bool) {
	text, err := readFile(file)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

// table calls each with the lines of a file, which have a name and a number.
func table(file string, each func(name string, n uint64)) {
	text, err := readFile(file)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			each(name, n)
		}
	}
}

// unlimited is what version 1 shows where there is no limit, or more: all that no machine has (cAdvisor's bound).
const unlimited = 1 << 62

// limit reads a limit; 0 is none.
func limit(file string) uint64 {
	if n := number(file); n < unlimited {
		return n
	}
	return 0
}
