package wine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGuestFiles: whatever the programs of a prefix put in the place of a file, nothing outside of the prefix is read
// or changed, and nobody waits.
func TestGuestFiles(t *testing.T) {
	outer := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(outer, "secret")
	must(os.WriteFile(secret, []byte("of the machine"), 0o600))
	p := Prefix{Dir: filepath.Join(outer, "prefix")}
	system32 := filepath.Join(p.DriveC(), "windows", "system32")
	for name, put := range map[string]func(path string) error{
		"link":             func(path string) error { return os.Symlink(secret, path) },
		"relative link":    func(path string) error { return os.Symlink("../secret", path) },
		"link to a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":           func(path string) error { return os.MkdirAll(filepath.Join(path, "below"), 0o755) },
		"huge file":        func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			must(os.MkdirAll(system32, 0o755))
			defer os.RemoveAll(p.Dir)
			for _, file := range []string{"system.reg", pipesName, "wineserver", "drive_c/windows/system32/our.dll",
				"drive_c/windows/system32/our.dll.new"} {
				path := filepath.Join(p.Dir, file)
				must(put(path))
				if name == "huge file" {
					must(os.Truncate(path, 1<<40))
				}
			}
			done := inBackground(func() {
				if data, err := p.ReadFile("system.reg"); err == nil {
					t.Errorf("read %.20q", data)
				}
				if err := p.SetMachine("h"); err == nil {
					t.Error("the machine is written")
				}
				if _, err := p.NextBoot(); err == nil {
					t.Error("a boot is counted")
				}
				if text := p.PipeProblem(); strings.Contains(text, "of the machine") {
					t.Errorf("the problem is %q", text)
				}
				_, _ = p.socketDir()
				if name != "huge file" {
					if err := p.AppendFile("system.reg", "added"); err == nil {
						t.Error("something is added")
					}
				}
				dlls := filepath.Join(outer, "dlls")
				must(os.MkdirAll(dlls, 0o755))
				for _, name := range []string{"our.dll", "our.exe"} {
					must(os.WriteFile(filepath.Join(dlls, name), []byte("new"), 0o644))
				}
				_, err := InstallDLLs(p, dlls) // a folder in the place of the file stays
				if data, e := os.ReadFile(filepath.Join(system32, "our.dll")); name != "folder" &&
					(err != nil || e != nil || string(data) != "new") {
					t.Errorf("our.dll is %q: %v, %v", data, err, e)
				}
			})
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("it waits")
			}
			if data, err := os.ReadFile(secret); err != nil || string(data) != "of the machine" {
				t.Errorf("a file of the machine is %q, %v", data, err)
			}
		})
	}

	// A folder on the way leads out.
	must(os.MkdirAll(p.DriveC(), 0o755))
	must(os.Symlink(outer, filepath.Join(p.DriveC(), "etc")))
	if err := p.WriteFile("drive_c/etc/secret", []byte("new"), 0o644); err == nil {
		t.Error("a file outside is written")
	}
	if err := p.MkdirAll("drive_c/etc/made"); err == nil {
		t.Error("a folder outside is made")
	}
	if err := p.Install(os.Args[0], "drive_c/etc/secret"); err == nil {
		t.Error("a program is installed outside")
	}
	must(os.Symlink(secret, filepath.Join(p.DriveC(), "program.exe")))
	must(p.Install(os.Args[0], "drive_c/program.exe"))
	must(p.Link("drive_c/program.exe", "drive_c/other.exe"))
	must(p.Link("drive_c/program.exe", "drive_c/other.exe"))
	for _, name := range []string{"program.exe", "other.exe"} {
		want, err := os.Stat(os.Args[0])
		must(err)
		if st, err := os.Lstat(filepath.Join(p.DriveC(), name)); err != nil || !st.Mode().IsRegular() ||
			st.Size() != want.Size() || !st.ModTime().Equal(want.ModTime()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if q, name, ok := InPrefix(filepath.Join(p.DriveC(), "k", "a.exe")); !ok || q != p || name != "drive_c/k/a.exe" {
		t.Errorf("%v, %s, %v", q, name, ok)
	}
	if _, _, ok := InPrefix("/var/lib/porthole/wine/programs/drive_c/k/a.exe"); ok {
		t.Error("a folder below all hosts is a host's")
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "of the machine" {
		t.Errorf("a file of the machine is %q, %v", data, err)
	}
}

// inBackground runs f and tells when it is done.
func inBackground(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}
