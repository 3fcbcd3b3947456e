package silos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
	"porthole.dev/porthole/internal/platform"
)

const layerID = "00000000-0000-0000-0000-00000000000a"

// bench is a store on a prefix that is a plain folder, with one layer, which is a folder too.
type bench struct {
	*Store
	t *testing.T
}

// Hold has the one layer.
func (b *bench) Hold(volume string, f func(layer, dir string) error) error {
	if id, ok := hcsd.LayerOfVolume(volume); ok && id == layerID {
		return f(id, b.host.MergedDir(id))
	}
	return f("", "")
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	h := hostfs.Host{Dir: t.TempDir()}
	b := &bench{t: t}
	b.Store = New(h, b)
	for _, dir := range []string{filepath.Join(h.Dir, "prefix", "dosdevices"), filepath.Join(h.DriveC(), "data"),
		filepath.Join(h.DriveC(), "in"), filepath.Join(h.MergedDir(layerID), "etc"), h.Path()} {
		check(t, os.MkdirAll(dir, 0o755))
	}
	check(t, os.WriteFile(filepath.Join(h.DriveC(), "data", "file"), []byte("data"), 0o644))
	check(t, os.WriteFile(filepath.Join(h.MergedDir(layerID), "etc", "file"), []byte("layer"), 0o644))
	t.Cleanup(func() {
		for job := range b.silos {
			b.drop(job)
		}
		for _, m := range b.Mappings("") {
			check(t, b.Unbind("", m.Root))
		}
		check(t, Unmount(h))
	})
	return b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reads is what a program of a silo reads at a path below C:.
func (b *bench) reads(job, name string) string {
	dir := b.prefix()
	if job != "" {
		dir = b.dirOf(job)
	}
	data, err := os.ReadFile(filepath.Join(dir, "drive_c", name))
	if err != nil {
		return "nothing"
	}
	return string(data)
}

// TestSilo: a mapping is seen in its silo only, and goes with the connection that made the silo, or with its layer.
func TestSilo(t *testing.T) {
	b := newBench(t)
	check(t, b.Bind(Request{Maker: 1, Job: "one", Root: `C:\in\d`, Target: `C:\data`}))
	etc := hcsd.Volume(layerID) + `\etc`
	check(t, b.Bind(Request{Maker: 2, Job: "one", Root: `C:\in\l`, Target: etc, ReadOnly: true}))
	check(t, b.Bind(Request{Maker: 2, Job: "two", Root: `C:\in\d`, Target: `C:\data`}))
	for _, c := range []struct{ job, name, want string }{{"one", "in/d/file", "data"}, {"one", "in/l/file", "layer"},
		{"two", "in/d/file", "data"}, {"two", "in/l/file", "nothing"}, {"", "in/d/file", "nothing"}} {
		if got := b.reads(c.job, c.name); got != c.want {
			t.Errorf("silo %q reads %q at %s, want %q", c.job, got, c.name, c.want)
		}
	}
	err := os.WriteFile(filepath.Join(b.dirOf("one"), "drive_c", "in", "l", "new"), nil, 0o644)
	if err == nil {
		t.Error("a mapping that is read-only is written")
	}
	want := []Mapping{{`C:\in\d`, `C:\data`, false}, {`C:\in\l`, etc, true}}
	if got := b.Mappings("one"); !slices.Equal(got, want) {
		t.Errorf("mappings %v, want %v", got, want)
	}

	b.DropOn("another")
	b.Closed(2) // it has made the second silo only
	if b.Mappings("two") != nil || len(b.Mappings("one")) != 2 {
		t.Error("the wrong silo has ended")
	}
	b.DropOn(layerID)
	if mounts, err := platform.MountPointsBelow(b.host.Dir); err != nil || len(mounts) > 0 || b.Mappings("one") != nil {
		t.Errorf("mounted: %v, %v", mounts, err)
	}
	if left, err := os.ReadDir(filepath.Join(b.host.DriveC(), "in")); err != nil || len(left) > 0 {
		t.Errorf("mount points are left: %v, %v", left, err)
	}
}

// TestIllegal: a mapping that is refused leaves the mappings as they are.
func TestIllegal(t *testing.T) {
	b := newBench(t)
	check(t, os.Symlink("/etc", filepath.Join(b.host.DriveC(), "out")))
	check(t, b.Bind(Request{Root: `C:\in\d`, Target: `C:\data`}))
	before, err := os.ReadFile(b.file)
	check(t, err)

	for _, c := range []struct {
		name string
		q    Request
		want *hcsd.Error
	}{
		{"merged", Request{Root: `C:\in\x`, Target: `C:\data`, Merged: true}, hcsd.ErrNotSupported},
		{"C: itself", Request{Root: `C:\`, Target: `C:\data`}, hcsd.ErrNotSupported},
		{"of what is not there", Request{Root: `C:\in\x`, Target: `C:\absent`}, hcsd.ErrPathNotFound},
		{"in what is not there", Request{Root: `C:\absent\x`, Target: `C:\data`}, hcsd.ErrPathNotFound},
		{"of what leads out", Request{Root: `C:\in\x`, Target: `C:\out\passwd`}, hcsd.ErrAccessDenied},
		{"to what leads out", Request{Root: `C:\out\x`, Target: `C:\data`}, hcsd.ErrAccessDenied},
		{"over a link", Request{Root: `C:\out`, Target: `C:\data`}, hcsd.ErrNotSupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := b.Bind(c.q); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			now, err := os.ReadFile(b.file)
			if err != nil || string(now) != string(before) || len(b.Mappings("")) != 1 {
				t.Errorf("mappings %v, on disk %s, %v", b.Mappings(""), now, err)
			}
		})
	}

	for _, path := range []string{`C:\in`, `C:\in\x`} {
		if err := b.Unbind("", path); !errors.Is(err, hcsd.ErrElementNotFound) {
			t.Errorf("unbind %s: %v", path, err)
		}
	}
	if err := b.Unbind("none", `C:\in\d`); !errors.Is(err, hcsd.ErrElementNotFound) {
		t.Errorf("unbind of no silo: %v", err)
	}
}

// TestRestore: the next store has the mappings, and ends silos in which no program runs.
func TestRestore(t *testing.T) {
	b := newBench(t)
	check(t, b.Bind(Request{Maker: 1, Job: "one", Root: `C:\in\d`, Target: `C:\data`}))
	check(t, b.Bind(Request{Root: `C:\in\all`, Target: `C:\data`}))
	b.Store = New(b.host, b)
	check(t, b.Restore())
	if b.Mappings("one") != nil || len(b.Mappings("")) != 1 || b.reads("", "in/all/file") != "data" {
		t.Errorf("mappings %v and %v", b.Mappings("one"), b.Mappings(""))
	}
	check(t, b.Unbind("", `C:\IN\ALL\`))
}

// TestConcurrent: silos are made and end at the same moment; nothing stays mounted.
func TestConcurrent(t *testing.T) {
	b := newBench(t)
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			q := Request{Maker: 7, Job: fmt.Sprint("job", n), Root: fmt.Sprintf(`C:\in\%d`, n), Target: `C:\data`}
			for range 5 {
				if err := b.Bind(q); err != nil {
					t.Error(err)
				}
				b.Mappings(q.Job)
				_ = b.Unbind(q.Job, q.Root) // another one's end may have come before
				b.Closed(q.Maker)
			}
		})
	}
	all.Wait()
	if mounts, err := platform.MountPointsBelow(b.host.Dir); err != nil || len(mounts) > 0 || len(b.silos) > 0 {
		t.Errorf("mounted: %v, %v, silos %v", mounts, err, b.silos)
	}
}
