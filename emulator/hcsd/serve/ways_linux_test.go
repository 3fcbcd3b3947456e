package serve

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/testkit"
)

// TestWaysOut has a program that makes system calls of Linux itself try each way out of a container that it knows, as
// both users that every container has. For the host's own programs, and so for HostProcess pods, see cli/host
// TestHost.
func TestWaysOut(t *testing.T) {
	for _, build := range []int{17763, 26100} {
		t.Run(fmt.Sprint(build), func(t *testing.T) {
			h := startHostOf(t, build)
			h.write("layers/base/Files/note.txt", "of the image")
			h.write("shared/note.txt", "of the host")
			h.built("client", "client.exe")
			h.built("escape", "layers/base/Files/escape.exe")
			line := strings.Join([]string{`C:\escape.exe`, h.o.HostDir, h.o.Template, filepath.Dir(h.o.HostDir),
				h.o.root().path()}, " ")
			w := wantedPrograms{Mounts: []wantedMount{{HostPath: `C:\shared`, ContainerPath: `C:\shared`}}}
			for _, user := range []string{"ContainerUser", "ContainerAdministrator"} {
				w.Programs = append(w.Programs, wantedProgram{Line: line, User: user})
			}
			for i, r := range h.ran(w) {
				if r.Code != 0 {
					t.Errorf("as %s: %+v", w.Programs[i].User, r)
				}
				testkit.NoWayOut(t, r.Out)
			}
		})
	}
}

// TestHostileRunFolder: whatever a container puts in the place of the files by which its launchers are told things and
// answer, hcsd reads and writes nothing else, and does not wait.
func TestHostileRunFolder(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("files of other users need root")
	}
	o := Options{HostDir: t.TempDir()}
	dir := runDir(o.systemDir("c"))
	check(t, os.MkdirAll(dir, 0o755))
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("7\n"), 0o600))
	f, err := o.openRun("c")
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

// TestPin: hcsd holds only what programs of the host can change, and follows no link there.
func TestPin(t *testing.T) {
	o := Options{HostDir: t.TempDir()}
	for _, dir := range []string{"prefix/drive_c/a/b", "hcs/layers/1-2/merged/x", "hcs/layers/1-2/own",
		"s01234/drive_c", "scm"} {
		check(t, os.MkdirAll(filepath.Join(o.HostDir, dir), 0o755))
	}
	check(t, os.Symlink("/etc", filepath.Join(o.HostDir, "prefix/drive_c/out")))
	check(t, os.Symlink("a", filepath.Join(o.HostDir, "prefix/drive_c/in")))
	for path, want := range map[string]bool{
		"prefix": true, "prefix/drive_c/a/b": true, "s01234/drive_c": true, "hcs/layers/1-2/merged/x": true,
		"prefix/drive_c/out": false, "prefix/drive_c/out/passwd": false, "prefix/drive_c/in/b": false,
		"hcs/layers/1-2/own": false, "scm": false, ".": false,
		"prefix/../scm": false, "prefix/drive_c/absent": false,
	} {
		p, err := o.pin(filepath.Join(o.HostDir, path))
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			p.Close()
		}
	}
	if wine.Owner < 1<<16 {
		t.Error("the user of emulated hosts is one that the machine may have")
	}
}
