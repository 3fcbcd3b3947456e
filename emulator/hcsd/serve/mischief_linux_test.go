package serve

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

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	secretText = "a secret of the machine"
	mischief   = 2 * time.Second  // what is random is so for that long
	patience   = 10 * time.Second // of one call of hcsd's; a measurement may take 1 s by itself
)

// TestMischief changes the files of a container, and those on its host's C:, at random while hcsd works on them: they
// become links, named pipes, deep folders and files of a terabyte. Each call of hcsd ends in time, returns nothing of a
// file outside, and changes none. No file and no goroutine is left.
func TestMischief(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of other users need root")
	}
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	check(t, os.WriteFile(secret, []byte(secretText), 0o600))
	o := Options{HostDir: t.TempDir()}
	c := filepath.Join(o.HostDir, "prefix", "drive_c")
	dir := o.systemDir("c")
	for _, d := range []string{c, runDir(dir), filepath.Join(dir, "run")} {
		check(t, os.MkdirAll(d, 0o755))
	}
	check(t, os.Chmod(filepath.Dir(o.HostDir), 0o711)) // the container's user passes through
	check(t, wine.Own(c))
	check(t, wine.Own(runDir(dir)))
	calls := callsOn(t, o, c)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	handles, routines := openFiles(t), runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), mischief)
	defer cancel()
	var all sync.WaitGroup
	for i, at := range []string{c, runDir(dir), c} {
		all.Go(func() {
			if done := stir(ctx, rand.New(rand.NewPCG(seed, uint64(i))), at, secret); done == 0 {
				t.Errorf("nothing was changed in %s", at)
			}
		})
	}
	for what, call := range calls {
		all.Go(func() {
			names := rand.New(rand.NewPCG(seed, 99))
			n, slowest := 0, time.Duration(0)
			for ; ctx.Err() == nil; n++ {
				begun := time.Now()
				if answer := call(nameOf(names)); strings.Contains(answer, secretText) {
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

// callsOn returns functions that call hcsd, by the name of what they call: with a name on C: of the host, or for the
// container "c" in the folder c. Each returns the text that hcsd has read.
func callsOn(t *testing.T, o Options, c string) map[string]func(name string) string {
	s := &Service{o: o}
	return map[string]func(string) string{
		"openHost": func(name string) string {
			p, err := s.openHost(`C:\` + strings.ReplaceAll(name, "/", `\`))
			if err != nil {
				return ""
			}
			defer p.Close()
			return contentOf(p)
		},
		"pin": func(name string) string {
			p, err := o.pin(filepath.Join(c, name))
			if err != nil {
				return ""
			}
			defer p.Close()
			return contentOf(p)
		},
		"readSmall": func(name string) string {
			root, err := o.openC()
			check(t, err)
			defer root.Close()
			text, _ := readSmall(root, name)
			return text
		},

		"usedBelow": func(string) string {
			_, _ = usedBelow(c, time.Now().Add(time.Second))
			return ""
		},
		"import": func(string) string {
			files, layer := filepath.Join(o.HostDir, "files"), filepath.Join(o.HostDir, "layer")
			check(t, errors.Join(os.RemoveAll(files), os.RemoveAll(layer), os.Mkdir(files, 0o755),
				os.Mkdir(layer, 0o755)))
			root, err := openRoot(layer)
			check(t, err)
			defer root.Close()
			_ = importInto(files, c, root)
			return ""
		},
		"launcher": func(string) string {
			f, err := o.openRun("c")
			check(t, err)
			defer f.close()
			_ = f.write(1, "line", []byte("told"))
			_, _ = f.exitCode(1)
			said := f.read(1, "started") + f.read(1, "exit")
			o.removeProgramFiles("c", 1)
			return said
		},
	}
}

// stir changes what is in a folder until the context ends, with the rights of a container, and returns how many changes
// succeeded.
func stir(ctx context.Context, r *rand.Rand, dir, secret string) (done int) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	_, _ = unix.SetfsgidRetGid(wine.Owner)
	_, _ = unix.SetfsuidRetUid(wine.Owner)

	for ctx.Err() == nil {
		path := filepath.Join(dir, nameOf(r))
		var err error
		switch r.IntN(12) {
		case 0:
			err = os.Remove(path)
		case 1: // not below a name that may have become a pipe: RemoveAll opens the folder and would wait
			top, _, _ := strings.Cut(nameOf(r), "/")
			err = os.RemoveAll(filepath.Join(dir, top))
		case 2:
			err = os.Symlink(secret, path)
		case 3:
			err = os.Symlink(filepath.Dir(secret), path)
		case 4:
			err = os.Symlink(strings.Repeat("../", 20)+secret, path)
		case 5:
			err = os.Symlink(secret+".new", path)
		case 6:
			err = unix.Mkfifo(path, 0o666)
		case 7, 8:
			err = os.MkdirAll(filepath.Join(path, strings.Repeat("d/", r.IntN(30))), 0o755)
		case 9:
			var f *os.File
			f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o644)
			if err == nil {
				_, err = f.Write(bytes.Repeat([]byte("9"), r.IntN(1<<16)))
				err = errors.Join(err, f.Truncate(1<<40), f.Close())
			}
		case 10:
			err = os.Rename(path, filepath.Join(dir, nameOf(r)))
		case 11:
			err = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, filepath.Join(dir, nameOf(r)),
				unix.RENAME_EXCHANGE)
		}
		if err == nil {
			done++
		}
	}
	return done
}

// nameOf returns one of a few names: some that hcsd uses itself, some others, and one of 255 bytes. There are few, so
// that hcsd often opens what stir has just made.
func nameOf(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return fileOf(1, told[r.IntN(len(told))])
	case 1:
		return fileOf(1, "line.new")
	case 2:
		return strings.Repeat("n", 255)
	default:
		names := []string{"a", "b", filesOf, "Hives"}
		if r.IntN(2) == 0 {
			return names[r.IntN(4)]
		}
		return names[r.IntN(4)] + "/" + names[r.IntN(4)]
	}
}

// contentOf reads the beginning of a regular file that hcsd has opened; "" for anything else.
func contentOf(p place) string {
	var st unix.Stat_t
	if unix.Fstat(int(p.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ""
	}
	f, err := os.Open(p.path())
	if err != nil {
		return ""
	}
	defer f.Close()
	start := make([]byte, 100)
	n, _ := f.Read(start)
	return string(start[:n])
}

// openFiles counts the files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(all)
}
