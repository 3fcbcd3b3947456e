//go:build linux

package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/deeptree"
	"porthole.dev/porthole/internal/testkit/mischief"
)

// TestDeepTree: what a container hides below thousands of folders is counted, in a time that grows with their number
// only, and with few open files.
func TestDeepTree(t *testing.T) {
	dir := t.TempDir()
	const levels = 6000
	deeptree.Make(t, dir, "d", levels, 1<<20)
	var u Usage
	var whole bool
	deeptree.WithFewFiles(t, 200, func() { u, whole = tree(t.Context(), dir) })
	if !whole || u.UsedInodes != levels+2 || u.UsedBytes < 1<<20 {
		t.Errorf("%+v, whole %t", u, whole)
	}
}

// TestTreeEnds: a measurement that takes too long ends, and says that it is a part.
func TestTreeEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if u, whole := tree(ctx, dir); whole || u.UsedInodes < 1 || u.UsedInodes > 6 {
		t.Errorf("%+v, whole %t", u, whole)
	}
}

// TestTreeRace: while a container exchanges folders for links, nothing outside is counted.
func TestTreeRace(t *testing.T) {
	dir, outside := t.TempDir(), mischief.Outside(t)
	if err := os.WriteFile(filepath.Join(outside, "big"), make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700),
		os.Symlink(outside, filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	mischief.Race(t, func(int) {
		_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "a"), unix.AT_FDCWD, filepath.Join(dir, "link"),
			unix.RENAME_EXCHANGE)
	}, func(int) {
		if u, _ := tree(t.Context(), dir); u.UsedBytes > 1<<20 {
			t.Errorf("something outside was counted: %+v", u)
		}
	})
	if err := os.Remove(filepath.Join(outside, "big")); err != nil {
		t.Fatal(err)
	}
	mischief.Unharmed(t, outside)
}

// BenchmarkLocalStorage measures the volumes of 100 pods, of three volumes with 60 files each.
func BenchmarkLocalStorage(b *testing.B) {
	root := b.TempDir()
	var dirs []string
	for pod := range 100 {
		for v := range 3 {
			dir := filepath.Join(root, fmt.Sprint(pod), "volumes", "kubernetes.io~empty-dir", fmt.Sprint(v))
			dirs = append(dirs, dir)
			for folder := range 6 {
				at := filepath.Join(dir, "a", fmt.Sprint(folder))
				if err := os.MkdirAll(at, 0o755); err != nil {
					b.Fatal(err)
				}
				for file := range 10 {
					if err := os.WriteFile(filepath.Join(at, fmt.Sprint(file)), []byte("x"), 0o600); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}

	for b.Loop() {
		for _, dir := range dirs {
			if u, whole := tree(b.Context(), dir); !whole || u.UsedInodes != 68 {
				b.Fatal(u, whole)
			}
		}
	}
}
