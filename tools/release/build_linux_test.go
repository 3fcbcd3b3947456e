package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestDLLsBuiltTwice builds the DLLs of the emulated host into two folders: the linker must not take anything from
// their paths.
func TestDLLsBuiltTwice(t *testing.T) {
	if os.Getenv("PORTHOLE_RELEASE") == "" {
		t.Skip("takes a minute: `make test-release`, or PORTHOLE_RELEASE=small")
	}
	var built [2]map[string]string
	for i, where := range []string{"one", "another/folder"} {
		dir := filepath.Join(t.TempDir(), where)
		if out, err := exec.Command("sh", "../../emulator/dll/build.sh", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		built[i] = sumsBelow(t, dir)
	}
	same(t, built)
}

// readAnything lets another user read Go's module cache, which may be in root's home (CAP_DAC_READ_SEARCH of
// capabilities(7)).
const readAnything = 2

// TestBuiltTwice builds programs in two folders, as two users in two time zones whose caches are empty, and compares
// them byte by byte: all programs of ours, the DLLs, and the small programs of bundle. PORTHOLE_RELEASE=small takes
// two programs and the DLLs only.
// Row 1.110.
func TestBuiltTwice(t *testing.T) {
	var commands []string
	switch os.Getenv("PORTHOLE_RELEASE") {
	case "":
		t.Skip("everything is compiled twice: `make test-release`")
	case "small":
		commands = []string{"tools/go build -ldflags='-s -w -buildid=' -o bin/ ./cmd/ovn_cni",
			"GOOS=windows tools/go build -ldflags='-s -w -buildid=' -o bin/windows/ ./cmd/win-bridge", "make dll"}
	default:
		commands = []string{
			"make programs dll bin/bundle/images/linux/pause bin/bundle/images/windows/testapp.exe bin/bundle/registry VERSION=v1.2.3"}
	}
	files := tracked(t)
	var built [2]map[string]string
	for i, where := range []string{"one", "another/folder"} {
		dir := filepath.Join(t.TempDir(), where)
		if err := copyFiles("../..", dir, files); err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		script := fmt.Sprintf("umask 0%d2; ", 2*i) + strings.Join(commands, " && ")
		c := exec.Command("bash", "-euc", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "HOME="+home, "GOCACHE="+filepath.Join(home, "cache"),
			"GOMODCACHE="+moduleCache(t), "USER="+fmt.Sprint("builder", i), "TZ="+[]string{"UTC", "Asia/Tokyo"}[i])
		if i == 1 && os.Getuid() == 0 {
			other(t, c, home, filepath.Dir(filepath.Dir(dir)))
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("in %s: %v\n%s", dir, err, out)
		}
		built[i] = sumsBelow(t, filepath.Join(dir, "bin"))
	}

	same(t, built)
}

// same fails unless two folders have the same files.
func same(t *testing.T, built [2]map[string]string) {
	t.Helper()
	if len(built[0]) < 2 {
		t.Fatalf("built were %v", built[0])
	}
	for name, sum := range built[0] {
		if built[1][name] != sum {
			t.Errorf("%s differs: %s and %s", name, sum, built[1][name])
		}
	}
	if len(built[0]) != len(built[1]) {
		t.Errorf("%d files and %d", len(built[0]), len(built[1]))
	}
	t.Logf("%d files were compared", len(built[0]))
}

// other makes a command run as another user, to whom folders then belong.
func other(t *testing.T, c *exec.Cmd, owned ...string) {
	t.Helper()
	const nobody = 65534
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		AmbientCaps: []uintptr{readAnything}}
	for _, dir := range owned {
		for above := filepath.Dir(dir); above != os.TempDir() && above != "/"; above = filepath.Dir(above) {
			if err := os.Chmod(above, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, nobody, nobody))
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// tracked are the repository's files.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("the files of the repository are not known: %v", err)
	}
	return slices.DeleteFunc(strings.Split(string(bytes.TrimRight(out, "\x00")), "\x00"), func(name string) bool {
		_, err := os.Stat(filepath.Join("../..", name))
		return errors.Is(err, fs.ErrNotExist) // deleted, and not committed
	})
}

func copyFiles(from, to string, names []string) error {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755),
			os.WriteFile(filepath.Join(to, name), data, info.Mode().Perm())); err != nil {
			return err
		}
	}
	return nil
}

func moduleCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// sumsBelow returns the hash of each file below a folder.
func sumsBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		sums[strings.TrimPrefix(path, dir+"/")] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}
