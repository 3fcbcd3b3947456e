//go:build linux

package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/deeptree"
	"porthole.dev/porthole/internal/testkit/mischief"
)

func modeOf(t *testing.T, p string) os.FileMode {
	t.Helper()
	info, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestSetGroup gives a tree to a group, but not the targets of its links. With the policy OnRootMismatch, a tree whose
// top folder has the group is not changed.
func TestSetGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir, outside := t.TempDir(), mischief.Outside(t)
	inner, onMismatch := filepath.Join(dir, "d", "f"), v1.FSGroupChangeOnRootMismatch
	if err := errors.Join(os.Chmod(dir, 0o700), os.Mkdir(filepath.Join(dir, "d"), 0o700),
		os.WriteFile(inner, nil, 0o600), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := SetGroup(dir, 2000, nil); err != nil {
		t.Fatal(err)
	}

	for path, mode := range map[string]os.FileMode{dir: os.ModeDir | os.ModeSetgid | 0o770,
		filepath.Join(dir, "d"): os.ModeDir | os.ModeSetgid | 0o770, inner: 0o660} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Gid != 2000 {
			t.Errorf("%s: group %d, %v", path, st.Gid, err)
		}
		if got := modeOf(t, path); got != mode {
			t.Errorf("%s: %v, want %v", path, got, mode)
		}
	}
	mischief.Unharmed(t, outside)

	if err := os.Chmod(inner, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := SetGroup(dir, 2000, &onMismatch); err != nil || modeOf(t, inner) != 0o600 {
		t.Errorf("the top has the group, and yet a file was changed: %v, %v", modeOf(t, inner), err)
	}
	if err := SetGroup(dir, 2001, &onMismatch); err != nil || modeOf(t, inner) != 0o660 {
		t.Errorf("the top has another group: %v, %v", modeOf(t, inner), err)
	}
}

// TestSetGroupRace: a container that shares the volume exchanges its files and folders for links while the volume is
// given to a group. Nothing outside gets the group or another mode.
func TestSetGroupRace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir, outside := t.TempDir(), mischief.Outside(t)
	if err := os.Chmod(filepath.Join(outside, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	const pairs = 20
	at := func(kind string, i int) string { return filepath.Join(dir, fmt.Sprint(kind, i%pairs)) }
	for i := range pairs {
		err := errors.Join(os.WriteFile(at("file", i), nil, 0o600),
			os.Symlink(filepath.Join(outside, "secret"), at("flink", i)),
			os.Mkdir(at("folder", i), 0o700), os.Symlink(filepath.Join(outside, "sub"), at("dlink", i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	mischief.Race(t, func(i int) {
		_ = unix.Renameat2(unix.AT_FDCWD, at("file", i), unix.AT_FDCWD, at("flink", i), unix.RENAME_EXCHANGE)
		_ = unix.Renameat2(unix.AT_FDCWD, at("folder", i), unix.AT_FDCWD, at("dlink", i), unix.RENAME_EXCHANGE)
	}, func(int) { _ = SetGroup(dir, 4321, nil) })

	for name, mode := range map[string]os.FileMode{"secret": 0o600, "sub": 0o700, "sub/secret": 0o600} {
		var st unix.Stat_t
		path := filepath.Join(outside, name)
		if err := unix.Stat(path, &st); err != nil || st.Gid == 4321 || modeOf(t, path).Perm() != mode {
			t.Errorf("%s outside: group %d, mode %v, %v", name, st.Gid, modeOf(t, path), err)
		}
	}
}

// TestDeepTreeIsRemoved: a pod whose volume has folders in folders in folders goes away, with few open files and little
// memory.
func TestDeepTreeIsRemoved(t *testing.T) {
	dir := t.TempDir()
	deeptree.Make(t, dir, "d", 6000, 1)
	var err error
	all := deeptree.WithFewFiles(t, 200, func() { err = RemoveTree(dir) })
	if err != nil || all > 64<<20 {
		t.Errorf("%d MiB allocated, %.300v", all>>20, err)
	}
}

// TestRemovalRace is CVE-2017-1002102: while a volume is removed, a container replaces folders in it by links. Nothing
// outside is removed.
func TestRemovalRace(t *testing.T) {
	base, outside := t.TempDir(), mischief.Outside(t)
	victim := filepath.Join(base, "v")
	const folders = 40
	name := func(kind string, i int) string { return filepath.Join(victim, fmt.Sprint(kind, i%folders)) }
	swaps, tries := mischief.Race(t, func(i int) {
		_ = unix.Renameat2(unix.AT_FDCWD, name("a", i), unix.AT_FDCWD, name("link", i), unix.RENAME_EXCHANGE)
	}, func(int) {
		for i := range folders {
			_ = os.MkdirAll(filepath.Join(name("a", i), "sub"), 0o755)
			_ = os.Symlink(outside, name("link", i))
		}
		_ = RemoveTree(victim)
	})
	t.Logf("%d swaps beside %d removals", swaps, tries)
	mischief.Unharmed(t, outside)
	if err := RemoveTree(victim); err != nil {
		t.Error(err)
	}
}
