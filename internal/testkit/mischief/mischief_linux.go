package mischief

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	secretText = "a secret of the machine"
	mischief   = 2 * time.Second  // what is random is so for that long
	patience   = 10 * time.Second // of one call; a measurement may take 1 s by itself
)

// Options of Run.
type Options struct {
	Dirs  []string // where files are changed; required
	Owner int      // the user and group that changes them; required
	Names []string // that are used often, such as those of the code's own files; required
	// Calls are functions that work on the folders, by the name of what they call, with a name in one of them. Each
	// returns the text that it has read.
	Calls map[string]func(name string) string
}

// Run changes the files of folders at random while functions work on them: they become links, named pipes, deep folders
// and files of a terabyte. It fails the test unless each call ends in time, returns nothing of a file outside, and
// changes none, and no file and no goroutine is left. It needs root.
func Run(t *testing.T, o Options) {
	t.Helper()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte(secretText), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	handles := openFiles(t)
	routines := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), mischief)
	defer cancel()
	var all sync.WaitGroup
	for i, at := range o.Dirs {
		all.Go(func() {
			s := stirrer{o, rand.New(rand.NewPCG(seed, uint64(i))), at, secret}
			if done := s.stir(ctx); done == 0 {
				t.Errorf("nothing was changed in %s", at)
			}
		})
	}
	for what, call := range o.Calls {
		all.Go(func() {
			// Each call gets the same sequence of names.
			names := rand.New(rand.NewPCG(seed, 99))
			n, slowest := 0, time.Duration(0)
			for ; ctx.Err() == nil; n++ {
				begun := time.Now()
				if answer := call(o.name(names)); strings.Contains(answer, secretText) {
					t.Errorf("%s returns %q", what, answer)
				}
				slowest = max(slowest, time.Since(begun))
			}
			t.Logf("%s: %d calls, the slowest took %v", what, n, slowest)
			if slowest > patience {
				t.Errorf("a call of %s took %v", what, slowest)
			}
		})
	}
	all.Wait()

	if text, err := os.ReadFile(secret); err != nil || string(text) != secretText {
		t.Errorf("the secret is %q, %v", text, err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("%v, %v outside", left, err)
	}
	wait.NoError(t, patience, "files and goroutines to end", func() error {
		if n, r := openFiles(t), runtime.NumGoroutine(); n > handles || r > routines {
			return fmt.Errorf("%d files and %d goroutines, before %d and %d", n, r, handles, routines)
		}
		return nil
	})
}

// stirrer changes what is in one folder.
type stirrer struct {
	Options
	r           *rand.Rand
	dir, secret string
}

// stir changes what is in the folder until the context ends, with the rights of a user, and returns how many changes
// succeeded.
func (s stirrer) stir(ctx context.Context) (done int) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	_, _ = unix.SetfsgidRetGid(s.Owner)
	_, _ = unix.SetfsuidRetUid(s.Owner)
	for ctx.Err() == nil {
		if err := s.change(filepath.Join(s.dir, s.name(s.r))); err == nil {
			done++
		}
	}
	return done
}

// change makes one change at a path, chosen at random.
func (s stirrer) change(path string) error {
	other := filepath.Join(s.dir, s.name(s.r))
	switch s.r.IntN(12) {
	case 0:
		return os.Remove(path)
	case 1: // not below a name that may have become a pipe: RemoveAll opens the folder and would wait
		top, _, _ := strings.Cut(s.name(s.r), "/")
		return os.RemoveAll(filepath.Join(s.dir, top))
	case 2:
		return os.Symlink(s.secret, path)
	case 3:
		return os.Symlink(filepath.Dir(s.secret), path)
	case 4:
		return os.Symlink(strings.Repeat("../", 20)+s.secret, path)
	case 5:
		return os.Symlink(s.secret+".new", path)

	case 6:
		return unix.Mkfifo(path, 0o666)
	case 7, 8:
		return os.MkdirAll(filepath.Join(path, strings.Repeat("d/", s.r.IntN(30))), 0o755)
	case 9:
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(bytes.Repeat([]byte("9"), s.r.IntN(1<<16)))
		return errors.Join(err, f.Truncate(1<<40), f.Close())
	case 10:
		return os.Rename(path, other)
	default:
		return unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	}
}

// name returns one of a few names: those that are given, some in folders, and one of 255 bytes. There are few, so that
// the calls often open what stir has just made.
func (o Options) name(r *rand.Rand) string {
	names := append([]string{"a", "b"}, o.Names...)
	switch r.IntN(4) {
	case 0:
		return strings.Repeat("n", 255)
	case 1:
		return names[r.IntN(len(names))] + "/" + names[r.IntN(len(names))]
	default:
		return names[r.IntN(len(names))]
	}
}

// Content reads the beginning of a regular file that is open; "" for anything else. path names it for this process.
func Content(f *os.File, path string) string {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ""
	}
	again, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer again.Close()
	start := make([]byte, 100)
	n, _ := again.Read(start)
	return string(start[:n])
}

// openFiles counts the files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
