package factlog

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/kubelet/pod"
)

// DefaultLimits bound what is kept on a node.
var DefaultLimits = Limits{Pod: 4 << 20, Total: 64 << 20}

// Limits bound the files, in bytes.
type Limits struct{ Pod, Total int64 }

// Log is a folder of files, one per pod. It is safe for concurrent use. A nil Log records nothing.
type Log struct {
	dir    string
	limits Limits

	mu    sync.Mutex
	files map[string]*file // by name
}

// file is one file of a Log.
type file struct {
	size    int64
	written time.Time // when an entry was added last
	dropped int       // entries that are missing at its beginning
	open    *os.File  // nil once the file has ended
}

// Open makes the folder and takes in what an earlier kubelet has left in it.
func Open(dir string, limits Limits) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of facts: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of facts: %w", err)
	}

	l := &Log{dir: dir, limits: limits, files: map[string]*file{}}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), suffix) {
			l.files[e.Name()] = &file{size: info.Size(), written: info.ModTime()}
		}
	}
	return l, nil
}

const suffix = ".jsonl"

// Pod is the file of one pod. A nil Pod records nothing.
type Pod struct {
	log  *Log
	name string
}

// Pod begins the file of a pod, in place of one that an earlier kubelet has left.
func (l *Log) Pod(uid types.UID) *Pod {
	name := string(uid) + suffix
	if l == nil || filepath.Base(name) != name {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()

	p := &Pod{log: l, name: name}
	out, err := os.OpenFile(p.path(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		klog.Background().Error(err, "Facts about a pod cannot be recorded", "pod", uid)
		return nil
	}
	if old := l.files[name]; old != nil && old.open != nil {
		old.open.Close()
	}
	l.files[name] = &file{written: time.Now(), open: out}
	return p
}

func (p *Pod) path() string { return filepath.Join(p.log.dir, p.name) }

// Fact records that a fact was taken.
func (p *Pod) Fact(f pod.Fact, at time.Time) {
	if p == nil {
		return
	}
	text, err := pod.FactEntry(f, at)
	p.add(text, err)
}

// Plan records that a plan was made.
func (p *Pod) Plan(n pod.Node, plan *pod.Plan, at time.Time) {
	if p == nil {
		return
	}
	text, err := pod.NewPlanEntry(n, plan, at)
	p.add(text, err)
}

// Close ends the file. It stays until its room is needed.
func (p *Pod) Close() {
	if p == nil {
		return
	}
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	p.stop()
}

// stop closes the file. The caller holds the lock.
func (p *Pod) stop() {
	if f := p.log.files[p.name]; f != nil && f.open != nil {
		f.open.Close()
		f.open = nil
	}
}

// add appends an entry to the file, unless the file was closed. err is the error of encoding the entry: it ends the
// file too, because a replay of facts with a gap comes to other plans than the node did.
func (p *Pod) add(entry []byte, err error) {
	l := p.log
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[p.name]
	if f == nil || f.open == nil {
		return
	}

	if err == nil && f.size+int64(len(entry)) > l.limits.Pod {
		err = p.halve(f)
	}
	if err == nil {
		_, err = f.open.Write(entry)
	}
	if err != nil {
		klog.Background().Error(err, "Recording facts about a pod ends", "file", p.path())
		p.stop()
		return
	}

	f.size += int64(len(entry))
	f.written = time.Now()
	l.makeRoom(p.name)
}

// halve drops the older half of a file, and says so in its first line.
func (p *Pod) halve(f *file) error {
	text, err := os.ReadFile(p.path())
	if err != nil {
		return fmt.Errorf("reading the facts that are to be dropped: %w", err)
	}

	at := len(text) / 2
	if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
		at += end + 1
	}

	gone := bytes.Count(text[:at], []byte{'\n'})
	if f.dropped > 0 {
		gone-- // the line that says so
	}

	f.dropped += gone

	first, err := pod.NewDroppedEntry(f.dropped, time.Now())
	if err != nil {
		return err
	}

	klog.Background().Info("Dropped the oldest facts about a pod", "file", p.path(), "entries", f.dropped)
	f.open.Close()
	rest := append(first, text[at:]...)
	if err := atomicfile.Write(p.path(), rest, 0o600); err != nil {
		return fmt.Errorf("dropping the oldest facts: %w", err)
	}

	f.size = int64(len(rest))

	f.open, err = os.OpenFile(p.path(), os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the facts again: %w", err)
	}
	return nil
}

// makeRoom removes the least recently written files, but not the one named keep, until the total is within its limit.
// The caller holds the lock.
func (l *Log) makeRoom(keep string) {
	total, names := int64(0), []string{}
	for name, f := range l.files {
		total += f.size
		names = append(names, name)
	}

	if total <= l.limits.Total {
		return
	}

	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(l.files[a].written.Compare(l.files[b].written), cmp.Compare(a, b))
	})

	for _, name := range names {
		if name == keep || total <= l.limits.Total {
			continue
		}
		old := &Pod{log: l, name: name}
		old.stop()
		if err := os.Remove(old.path()); err != nil {
			klog.Background().Error(err, "Facts about a pod cannot be removed", "file", old.path())
			continue
		}
		klog.Background().Info("Removed the facts about a pod, to make room", "file", old.path())
		total -= l.files[name].size
		delete(l.files, name)
	}
}
