package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/deeptree"
	"porthole.dev/porthole/internal/testkit/mischief"
)

// TestDeepTree: what a container hides below thousands of folders is counted, in a time that grows with their number
// only, and with few open files.
func TestDeepTree(t *testing.T) {
	dir := tempDir(t)
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
	dir := tempDir(t)
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
	dir, outside := tempDir(t), mischief.Outside(t)
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

// TestHostsFileIsNotWaitedFor: a named pipe in the place of the hosts file is refused at once.
func TestHostsFileIsNotWaitedFor(t *testing.T) {
	file := filepath.Join(tempDir(t), "etc-hosts")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- writeHosts(file, []byte("text")) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a named pipe was written")
		}
	case <-time.After(20 * time.Second):
		t.Error("it is still waiting for the pipe")
	}
}

// TestFileUsage is CVE-2020-8557: what a container writes to its hosts file and to its termination message is
// measured. What others put beside them, and the targets of links, is not.
func TestFileUsage(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith()
	mount, err := m.EtcHosts(pod, &v1.Container{Name: "c"}, Hosts{PodIPs: []string{"10.0.0.1"}, HostName: "p"})
	if err != nil {
		t.Fatal(err)
	}
	before := Measure{m}.FileUsage(pod.UID)
	if before.UsedInodes != 1 || before.UsedBytes == 0 {
		t.Errorf("hosts file: %+v", before)
	}

	messages := filepath.Join(m.opts.podDir(pod.UID), "containers", "c")
	outside := mischief.Outside(t)
	err = errors.Join(os.WriteFile(mount.HostPath, make([]byte, 1<<20), 0o644), os.MkdirAll(messages, 0o750),
		os.WriteFile(filepath.Join(messages, "00000001"), make([]byte, 2<<20), 0o666),
		os.WriteFile(filepath.Join(messages, "00000002"), make([]byte, 1<<20), 0o666),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(messages, "00000003")),
		os.Symlink(outside, filepath.Join(messages, "..", "d")))
	if err != nil {
		t.Fatal(err)
	}
	if u := (Measure{m}).FileUsage(pod.UID); u.UsedInodes != 3 || u.UsedBytes < 4<<20 || u.UsedBytes > 5<<20 {
		t.Errorf("with messages: %+v", u)
	}
	if u := (Measure{m}).FileUsage("nobody"); u != (Usage{}) {
		t.Errorf("a pod without a folder: %+v", u)
	}
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
