package container

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/hcsd/hostfs"
)

// TestHostileRunFolder: whatever a container puts in the place of the files by which its launchers are told things and
// answer, hcsd reads and writes nothing else, and does not wait.
func TestHostileRunFolder(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of other users need root")
	}
	b := New(Options{Host: hostfs.Host{Dir: t.TempDir()}}).bundle("c")
	dir := b.guest()
	check(t, os.MkdirAll(dir, 0o755))
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("7\n"), 0o600))
	f, err := b.openRun()
	check(t, err)
	defer f.close()

	hostile := map[string]func(path string) error{
		"link":     func(path string) error { return os.Symlink(secret, path) },
		"relative": func(path string) error { return os.Symlink("../../../../../../.."+secret, path) },
		"dangling": func(path string) error { return os.Symlink(secret+".new", path) },
		"pipe":     func(path string) error { return unix.Mkfifo(path, 0o666) },
		"device":   func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) },
		"folder":   func(path string) error { return os.Mkdir(path, 0o755) },
		"huge":     func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("9"), 1<<20), 0o644) },
	}
	for name, make := range hostile {
		t.Run(name, func(t *testing.T) {
			for _, what := range []string{"started", "exit", "line", "line.new"} {
				check(t, os.RemoveAll(filepath.Join(dir, fileOf(1, what))))
				check(t, make(filepath.Join(dir, fileOf(1, what))))
			}
			begun := time.Now()
			if said := f.read(1, "started"); strings.Contains(said, "7") || len(said) > maxAnswer {
				t.Errorf("hcsd reads %q", said)
			}
			if code, ok := f.exitCode(1); ok {
				t.Errorf("hcsd reads the exit code %d", code)
			}
			err := f.write(1, "line", []byte("told"))
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("hcsd waited %v", took)
			}
			if text, e := os.ReadFile(filepath.Join(dir, fileOf(1, "line"))); err == nil &&
				(e != nil || string(text) != "told") {
				t.Errorf("the launcher reads %q, %v", text, e)
			}
			if err != nil && name != "folder" {
				t.Error(err)
			}
		})
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "7\n" {
		t.Errorf("the secret is %q, %v", text, err)
	}
	if _, err := os.Lstat(secret + ".new"); err == nil {
		t.Error("a file was made outside of the folder")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
