package beneath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/deeptree"
)

// TestRemoveDeep: what is thousands of folders deep is removed with few open files, and with memory that grows with the
// number of folders at most.
func TestRemoveDeep(t *testing.T) {
	const levels = 12000
	remove := map[string]func(dir string) error{
		"by its path": RemoveAll,
		"in a root": func(dir string) error {
			root, err := os.OpenRoot(filepath.Dir(dir))
			if err != nil {
				return err
			}
			defer root.Close()
			return RemoveIn(root, filepath.Base(dir))
		},
	}

	for how, remove := range remove {
		dir := filepath.Join(t.TempDir(), "top")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		deeptree.Make(t, dir, strings.Repeat("d", 255), levels, 0)
		var err error
		began := time.Now()
		all := deeptree.WithFewFiles(t, 100, func() { err = remove(dir) })
		t.Logf("%s: %v, %d KiB allocated in all", how, time.Since(began), all>>10)
		if _, left := os.Lstat(dir); err != nil || !errors.Is(left, os.ErrNotExist) {
			t.Errorf("%s: %.300v, left: %v", how, err, left)
		}
		if all > levels*8<<10 { // twice 12,000 paths of 3 MB would be 72 GB
			t.Errorf("%s: %d MiB allocated", how, all>>20)
		}
	}
}

// TestRemoveBushy: chains that fork on the way are removed, and what only looks like a folder.
func TestRemoveBushy(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "top"), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at := dir
	for i := range 3 * removeDepth {
		err := os.MkdirAll(filepath.Join(at, "empty"), 0o700)
		for j := range 3 {
			err = errors.Join(err, os.Symlink(outside, filepath.Join(at, fmt.Sprint("link", j))),
				unix.Mkfifo(filepath.Join(at, fmt.Sprint("pipe", j)), 0o600),
				os.MkdirAll(filepath.Join(at, fmt.Sprint("side", j), "below"), 0o700))
		}
		if err != nil {
			t.Fatal(err)
		}
		deeptree.Make(t, filepath.Join(at, "side1"), "s", 10, 0)
		at = filepath.Join(at, fmt.Sprint(`d\`, i))
	}
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if err := RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is still there:", err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "secret")); err != nil {
		t.Error(err)
	}
}

func TestRemoveSingle(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.Symlink("file", filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "file", "none", "none/none", "file/"} {
		if err := RemoveAll(dir + "/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", ".", "/", dir + "/.."} {
		if err := RemoveAll(bad); err == nil {
			t.Errorf("%q was removed", bad)
		}
	}
}

// TestRemoveMount: a removal leaves alone what is mounted in the tree, at any depth, and removes the rest.
func TestRemoveMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, depth := range []int{0, 3, removeDepth, 3 * removeDepth} {
		dir, outside := filepath.Join(t.TempDir(), "top"), t.TempDir()
		place := filepath.Join(dir, strings.Repeat("d/", depth), "mount")
		if err := errors.Join(os.MkdirAll(place, 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
			os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(outside, place, "", unix.MS_BIND, ""); err != nil {
			t.Skip("no mounts here:", err)
		}
		hold, err := unix.Open(place, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}

		err = RemoveAll(dir)
		if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "mount") {
			t.Errorf("depth %d: %v", depth, err)
		}
		if _, err := os.Lstat(filepath.Join(outside, "secret")); err != nil {
			t.Errorf("depth %d: %v", depth, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "file")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("depth %d: the rest is still there: %v", depth, err)
		}
		if err := errors.Join(unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", hold), unix.MNT_DETACH), unix.Close(hold),
			RemoveAll(dir)); err != nil {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// TestRemoveRecreated: a program makes files and deep folders again as fast as it can. The removal ends, and says what
// it could not remove.
func TestRemoveRecreated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "top")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var makers sync.WaitGroup
	for i := range 2 {
		makers.Go(func() {
			deep := filepath.Join(dir, "busy", strings.Repeat("d/", 2*removeDepth*i))
			for !stop.Load() {
				_ = os.MkdirAll(deep, 0o700)
				_ = os.WriteFile(filepath.Join(deep, "file"), nil, 0o600)
			}
		})
	}

	failed := 0
	for range 20 {
		began := time.Now()
		r := remover{limit: 2 * time.Second}
		err := r.run(dir)
		if time.Since(began) > 5*time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
		if err != nil {
			failed++
			if !strings.Contains(err.Error(), dir) {
				t.Errorf("the error does not name the folder: %v", err)
			}
		}
	}
	stop.Store(true)
	makers.Wait()
	t.Logf("%d of 20 removals failed", failed)
	if err := RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// TestRemoveEnds: a removal that takes too long ends with an error that names the folder.
func TestRemoveEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "top")
	if err := os.MkdirAll(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := remover{limit: 1}
	if err := r.run(dir); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
}

// TestRemoveRace: while deep folders are removed, they are exchanged for links to a folder outside, and moved. Nothing
// outside is removed.
func TestRemoveRace(t *testing.T) {
	base, outside := t.TempDir(), t.TempDir()
	dir := filepath.Join(base, "top")
	err := errors.Join(os.Mkdir(filepath.Join(base, "beside"), 0o700),
		os.WriteFile(filepath.Join(base, "beside", "secret"), nil, 0o600),
		os.MkdirAll(filepath.Join(outside, "d", "d"), 0o700),
		os.WriteFile(filepath.Join(outside, "d", "secret"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var at [removeDepth + 4]string
	for i := range at {
		at[i] = filepath.Join(dir, strings.Repeat("d/", i))
	}
	var stop atomic.Bool
	var swapper sync.WaitGroup
	swaps, moves := 0, 0
	swapper.Go(func() {
		for i := 0; !stop.Load(); i++ {
			// Its own links do not lead it outside, where it would move the secret away itself.
			how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY, Resolve: unix.RESOLVE_NO_SYMLINKS}
			level, err := unix.Openat2(unix.AT_FDCWD, at[len(at)-1-i%8], &how)
			if err != nil {
				continue
			}
			_ = unix.Symlinkat(outside, level, "link")
			for range 63 { // an odd number, so that the link is at d at the end
				if unix.Renameat2(level, "d", level, "link", unix.RENAME_EXCHANGE) == nil {
					swaps++
				}
			}
			if unix.Renameat(level, "link", unix.AT_FDCWD, filepath.Join(base, fmt.Sprint("moved", i%4))) == nil {
				moves++
			}
			_ = unix.Close(level)
		}
	})

	removals := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); removals++ {
		_ = os.MkdirAll(at[len(at)-1]+"/d/d", 0o700)
		_ = RemoveAll(dir)
	}
	stop.Store(true)
	swapper.Wait()
	t.Logf("%d swaps and %d moves beside %d removals", swaps, moves, removals)
	for _, secret := range []string{filepath.Join(base, "beside", "secret"), filepath.Join(outside, "d", "secret"),
		filepath.Join(outside, "d", "d")} {
		if _, err := os.Lstat(secret); err != nil {
			t.Error(err)
		}
	}
	if err := RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
