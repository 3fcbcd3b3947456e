package podnet

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestWriteIsSeen: a runtime that could not read the configuration when it came hears of one more change, when nobody
// has the file open any more. One that is the same changes nothing.
func TestWriteIsSeen(t *testing.T) {
	dir := t.TempDir()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	if err := watcher.Add(dir); err != nil {
		t.Fatal(err)
	}

	conf := Conf{Name: "10-porthole.conf", Data: []byte("{}")}
	for _, want := range []bool{true, false} {
		if changed, err := conf.Write(dir); changed != want || err != nil {
			t.Fatalf("changed %v, %v, want %v", changed, err, want)
		}
	}
	var seen []string
	for len(seen) == 0 || seen[len(seen)-1] != "last" {
		select {
		case e := <-watcher.Events:
			// containerd looks at these alone, and at nothing that is only made.
			if name := filepath.Base(e.Name); name == conf.Name || e.Has(fsnotify.Write) || e.Has(fsnotify.Remove) {
				seen = append(seen, name)
			}
		case <-time.After(200 * time.Millisecond): // nothing more comes
			seen = append(seen, "last")
		}
	}
	if i := slices.Index(seen, conf.Name); i < 0 || i+2 >= len(seen) || seen[i+1] == conf.Name ||
		seen[len(seen)-2] == conf.Name {
		t.Errorf("changes %q, want one of another file after that of %s", seen, conf.Name)
	}
}
