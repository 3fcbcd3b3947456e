package static

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/beneath"
)

// Files is a folder of manifests, or one manifest. Files whose names begin with a dot, and folders in the folder, are
// not read.
type Files struct {
	// Path of the folder or file. It need not exist.
	Path string
	// Node is the name of this node.
	Node string
	// Period is how often everything is read again, for changes that were not noticed. Required.
	Period time.Duration

	kept map[string]keptFile
	// left are the paths of files that were deleted or moved away since the last reading, also if there is a file
	// again.
	left map[string]bool
	// said has the last reported error of each file, so that each error is reported once.
	said map[string]string
}

// keptFile is the last content of a file that could be read.
type keptFile struct {
	data []byte
	pods []*v1.Pod
}

// quiet is how long the folder must rest after a change before it is read: a file that is being written is not
// complete.
const quiet = 50 * time.Millisecond

// Run delivers all pods at once, then whenever they have changed, until ctx ends. refused gets each file that holds no
// usable pod, once per reason; it may be nil. A folder that does not exist holds no pods.
func (f *Files) Run(ctx context.Context, deliver func([]*v1.Pod), refused func(path string, err error)) {
	log := klog.FromContext(ctx)
	watcher, err := fsnotify.NewWatcher()
	if err != nil { // the rescan remains
		log.Error(err, "Watching for changes of manifests failed", "file", f.Path)
		watcher = &fsnotify.Watcher{}
	} else {
		defer watcher.Close()
	}

	tick := time.NewTicker(f.Period)
	defer tick.Stop()
	rest := time.NewTimer(time.Hour)
	defer rest.Stop()
	f.left = map[string]bool{}
	watching := f.watch(watcher)
	if pods, _, err := f.read(refused); err != nil {
		log.Error(err, "Reading static pods failed", "file", f.Path)
	} else {
		deliver(pods)
	}

	for {
		select {
		case <-ctx.Done():
			return
		case e := <-watcher.Events:
			if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
				f.left[e.Name] = true
			}
			rest.Reset(quiet)
			continue
		case err := <-watcher.Errors: // an overflow, for example: the rescan finds what was missed
			log.V(2).Info("A change of manifests may have been missed", "cause", fmt.Sprint(err))
			rest.Reset(quiet)
			continue
		case <-rest.C:
		case <-tick.C:
			if !watching || gone(f.Path) {
				watching = f.watch(watcher)
			}
		}
		if pods, ended := f.forget(); ended {
			deliver(pods)
		}
		pods, changed, err := f.read(refused)
		if err != nil {
			log.Error(err, "Reading static pods failed", "file", f.Path)
			continue
		}
		if changed {
			deliver(pods)
		}
	}
}

func gone(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

// watch asks for events of the folder, or of the folder that holds the one file.
func (f *Files) watch(w *fsnotify.Watcher) bool {
	info, err := os.Stat(f.Path)
	if err != nil || w.Events == nil {
		return false
	}
	dir := f.Path
	if !info.IsDir() {
		dir = filepath.Dir(f.Path)
	}
	return w.Add(dir) == nil
}

// read returns all pods, and whether any file differs from the last time. An error says that nothing is known.
func (f *Files) read(refused func(string, error)) (pods []*v1.Pod, changed bool, err error) {
	paths, err := f.list()
	if err != nil {
		return nil, false, err
	}

	first := f.kept == nil
	if first {
		f.kept, f.said = map[string]keptFile{}, map[string]string{}
	}

	found := map[string]bool{}
	for _, path := range paths {
		found[path] = true
		different, err := f.readFile(path)
		changed = changed || different
		if err == nil {
			delete(f.said, path)
		} else if text := err.Error(); f.said[path] != text {
			f.said[path] = text
			if refused != nil {
				refused(path, err)
			}
		}
	}

	for path := range f.kept {
		if !found[path] {
			delete(f.kept, path)
			changed = true
		}
	}

	for _, path := range paths { // in the order of names, so that the first of two equal names is always the same
		pods = append(pods, f.kept[path].pods...)
	}
	return pods, changed || first, nil
}

// forget drops the manifests that were deleted or moved away since the last reading, and returns the pods of the
// others. ended reports whether there was one. A manifest that was put back is dropped too: its pod ends and starts
// anew, however soon the file was back.
func (f *Files) forget() (pods []*v1.Pod, ended bool) {
	for path := range f.left {
		if _, known := f.kept[path]; known {
			delete(f.kept, path)
			ended = true
		}
	}
	clear(f.left)
	for _, path := range slices.Sorted(maps.Keys(f.kept)) {
		pods = append(pods, f.kept[path].pods...)
	}
	return pods, ended
}

// list returns the manifests: the one file, or the files of the folder in the order of their names. A path that does
// not exist has none, and its pods end. Hidden files are left out, because editors and atomic writers put unfinished
// ones there.
func (f *Files) list() ([]string, error) {
	info, err := os.Stat(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", f.Path, err)
	}
	if !info.IsDir() {
		return []string{f.Path}, nil
	}

	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", f.Path, err)
	}

	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(f.Path, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // Stat follows links
			out = append(out, path)
		}
	}

	return out, nil
}

// readFile brings kept up to date with one file. After an error kept still has what was there before.
func (f *Files) readFile(path string) (changed bool, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|beneath.NoWait, 0)
	if err != nil {
		return false, fmt.Errorf("reading it: %w", err)
	}
	defer file.Close()
	// a named pipe or a device would be waited for
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, errors.Join(err, errors.New("it is not a file"))
	}

	data, err := io.ReadAll(io.LimitReader(file, maxManifest+1))
	if err != nil {
		return false, fmt.Errorf("reading it: %w", err)
	}

	old, known := f.kept[path]
	if known && bytes.Equal(old.data, data) {
		return false, nil
	}

	pods, unknown, err := Parse(data, Origin{Kind: "file", Place: path, Node: f.Node})
	if err != nil {
		return false, err
	}

	for _, u := range unknown {
		klog.Background().Info("A manifest has a field that is not known", "file", path, "field", u)
	}

	f.kept[path] = keptFile{data: data, pods: pods}
	return true, nil
}
