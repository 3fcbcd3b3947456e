package layers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"porthole.dev/porthole/emulator/hcsd"
	"porthole.dev/porthole/emulator/hcsd/hostfs"
)

// bench is a store on a C: that is a plain folder, with one system and one silo for each layer that the test wants.
type bench struct {
	*Store
	t *testing.T

	mu      sync.Mutex
	user    string   // runs on every layer; "": nothing does
	dropped []string // layers whose silos were ended
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	b := &bench{t: t}
	dir := t.TempDir()
	h := hostfs.Host{Dir: dir}
	b.Store = New(Options{Host: h, Template: filepath.Join(dir, "template"), Users: b, Drop: func(layer string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dropped = append(b.dropped, layer)
	}})
	for _, d := range []string{filepath.Join(h.DriveC(), "l"), filepath.Join(dir, "template", "drive_c"),
		h.Path("layers")} {
		check(t, os.MkdirAll(d, 0o755))
	}
	t.Cleanup(func() { check(t, Unmount(h)) })
	b.write("l/base/Files/a.txt", "base")
	return b
}

func (b *bench) UserOf(string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.user
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.host.DriveC(), name)
	check(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(b.t, os.WriteFile(path, []byte(text), 0o644))
}

// own makes a container's own layer, and returns its path of Windows.
func (b *bench) own(name string) string {
	b.t.Helper()
	b.write("l/"+name+"/"+diskName, "disk")
	return `C:\l\` + name
}

// prepared makes one that is mounted, and returns its volume too.
func (b *bench) prepared(name string) (path, volume string) {
	b.t.Helper()
	path = b.own(name)
	check(b.t, b.Activate(path))
	check(b.t, b.Prepare(path, []string{`C:\l\base`}))
	volume, err := b.MountPath(path)
	check(b.t, err)
	return path, volume
}

// kept is what the store keeps of all layers.
func (b *bench) kept() string {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.host.LayerDir("*"), "*"))
	check(b.t, err)
	text := ""
	for _, f := range files {
		data, _ := os.ReadFile(f) // of a folder: nothing
		text += f + " " + string(data) + "\n"
	}
	return text
}

// TestIllegal: a call that the state of a layer does not allow is refused, and changes nothing.
func TestIllegal(t *testing.T) {
	b := newBench(t)
	base := []string{`C:\l\base`}
	b.own("new")
	b.own("active")
	check(t, b.Activate(`C:\l\active`))
	used, volume := b.prepared("used")
	b.user = "s"
	b.write("l/plain/note", "")
	for _, c := range []struct {
		name string
		call func() error
		want *hcsd.Error
	}{
		{"prepare what is not active", func() error { return b.Prepare(`C:\l\new`, base) }, hcsd.ErrNotReady},
		{"prepare over nothing", func() error { return b.Prepare(`C:\l\active`, nil) }, hcsd.ErrInvalidArgument},
		{"prepare over what is not there", func() error { return b.Prepare(`C:\l\active`, []string{`C:\l\x`}) },
			hcsd.ErrPathNotFound},
		{"activate without a disk", func() error { return b.Activate(`C:\l\plain`) }, hcsd.ErrFileNotFound},
		{"unprepare what is used", func() error { return b.Unprepare(used) }, hcsd.ErrInUse},
		{"destroy what is used", func() error { return b.Destroy(t.Context(), used) }, hcsd.ErrInUse},
		{"destroy C:", func() error { return b.Destroy(t.Context(), `C:\`) }, hcsd.ErrAccessDenied},
		{"mount path of what is not mounted", func() error { _, err := b.MountPath(`C:\l\active`); return err },
			hcsd.ErrNotReady},
		{"attach the disk of a layer without one", func() error { return b.AttachDisk(`C:\l\active\` + diskName) },
			hcsd.ErrNotSupported},
		{"attach another file", func() error { return b.AttachDisk(`C:\l\active\x`) }, hcsd.ErrNotSupported},
		{"make a base of what has no files", func() error { return b.MakeBase(`C:\l\plain`) }, hcsd.ErrPathNotFound},
		{"import over nothing", func() error { return b.Import(`C:\l\plain`, `C:\l`, nil) }, hcsd.ErrInvalidArgument},
		{"mounted of no volume", func() error { _, err := b.Mounted("x"); return err }, hcsd.ErrPathNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := b.kept()
			if err := c.call(); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if now := b.kept(); now != before || len(b.dropped) > 0 {
				t.Errorf("changed from\n%s to\n%s, silos of %v have ended", before, now, b.dropped)
			}
		})
	}
	if _, err := b.Mounted(volume); err != nil {
		t.Error(err)
	}

	b.user = ""
	check(t, b.Unprepare(used))
	if id, _ := hcsd.LayerOfVolume(volume); !slices.Equal(b.dropped, []string{id}) {
		t.Errorf("silos of %v have ended, want those of %s", b.dropped, id)
	}
	if _, err := b.Mounted(volume); !errors.Is(err, hcsd.ErrNotReady) {
		t.Errorf("after it was unprepared: %v", err)
	}
}

// TestHold: while what shows a layer is made, the layer is not unmounted; a path that is on no layer has none.
func TestHold(t *testing.T) {
	b := newBench(t)
	path, volume := b.prepared("one")
	unprepared := make(chan error, 1)
	check(t, b.Hold(volume, func(layer, dir string) error {
		if id, _ := hcsd.LayerOfVolume(volume); layer != id || dir != b.host.MergedDir(id) {
			t.Errorf("layer %s at %s", layer, dir)
		}
		go func() { unprepared <- b.Unprepare(path) }()
		_, err := os.Stat(filepath.Join(dir, "a.txt"))
		return err
	}))
	check(t, <-unprepared)

	if err := b.Hold(volume, func(string, string) error { return nil }); !errors.Is(err, hcsd.ErrNotReady) {
		t.Errorf("of a layer that is not mounted: %v", err)
	}
	failed := errors.New("failed")
	for _, path := range []string{"", `C:\x`, hcsd.Volume("00000000-0000-0000-0000-00000000000a")} {
		err := b.Hold(path, func(layer, dir string) error {
			if layer+dir != "" {
				t.Errorf("%s: layer %s at %s", path, layer, dir)
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestConcurrent: layers are prepared and removed at the same moment, and what they are held by is asked for; nothing
// stays mounted.
func TestConcurrent(t *testing.T) {
	b := newBench(t)
	var all sync.WaitGroup
	for n := range 4 {
		path := b.own(fmt.Sprint("c", n))
		all.Go(func() {
			for range 3 {
				err := errors.Join(b.Activate(path), b.Prepare(path, []string{`C:\l\base`}))
				volume, e := b.MountPath(path)
				err = errors.Join(err, e, b.Hold(volume, func(string, string) error { return nil }), b.Unprepare(path),
					b.Deactivate(path))
				if err != nil {
					t.Error(err)
				}
			}
			if err := b.Destroy(context.Background(), path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(b.host.Path("layers")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
