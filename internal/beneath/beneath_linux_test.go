package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKinds: a named pipe and a socket are refused at once, and nobody waits for their other end.
func TestKinds(t *testing.T) {
	root, _ := tree(t)
	file := filepath.Join(root, "a", "b", "file")
	for _, kind := range []uint32{unix.S_IFIFO, unix.S_IFSOCK} {
		if err := errors.Join(os.Remove(file), unix.Mknod(file, kind|0o600, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := File(root, "a", "b", "file"); !errors.Is(err, ErrKind) {
			t.Errorf("kind %o: %v", kind, err)
		}
	}
}

// TestSwaps: while elements are exchanged for links and named pipes, nothing but the file itself is ever opened.
func TestSwaps(t *testing.T) {
	root, outside := tree(t)
	at := func(elements ...string) string { return filepath.Join(append([]string{root}, elements...)...) }
	err := errors.Join(os.Symlink(outside, at("link")), os.Symlink(filepath.Join(outside, "b"), at("a", "link")),
		os.Symlink(filepath.Join(outside, "b", "file"), at("a", "b", "link")), unix.Mkfifo(at("a", "b", "pipe"), 0o600),
		unix.Mkfifo(at("pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}

	var stop atomic.Bool
	var swapper sync.WaitGroup
	swaps := 0
	swapper.Go(func() {
		pairs := [][2]string{
			{at("a"), at("link")}, {at("a"), at("pipe")}, {at("a", "b"), at("a", "link")},
			{at("a", "b", "file"), at("a", "b", "link")}, {at("a", "b", "file"), at("a", "b", "pipe")},
		}
		for ; !stop.Load() || swaps < 1000; swaps++ {
			p := pairs[swaps/2%len(pairs)] // twice each: there and back
			_ = unix.Renameat2(unix.AT_FDCWD, p[0], unix.AT_FDCWD, p[1], unix.RENAME_EXCHANGE)
		}
	})

	opened, refused := 0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		f, err := File(root, "a", "b", "file")
		if err != nil {
			refused++
			continue
		}
		opened++
		text := make([]byte, 10)
		n, _ := f.Read(text)
		f.Close()
		if string(text[:n]) != "own" {
			t.Fatalf("read %q", text[:n])
		}
	}
	stop.Store(true)
	swapper.Wait()
	if t.Logf("%d swaps: %d opened, %d refused", swaps, opened, refused); opened == 0 || refused == 0 {
		t.Error("the race never went both ways")
	}
}
