package ownroot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const roleVariable = "PORTHOLE_TEST_ROLE"

// TestMain is also the program that enters, and the one that is inside.
func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "inside":
		look(os.Args[1])
	default:
		os.Setenv(roleVariable, "inside")
		fmt.Println(Enter(role, []string{os.Args[0], os.Args[1]}, os.Environ()))
	}
}

// look says what a program sees that is inside, and mounts something in the folder dir.
func look(dir string) {
	file := filepath.Join(dir, "file")
	for _, path := range []string{"/usr/bin/own", "/bin/own", "/usr/share", file, "/proc/self/stat"} {
		_, err := os.Stat(path)
		fmt.Printf("%s %v\n", path, err == nil)
	}
	cache, err := os.ReadFile("/etc/ld.so.cache")
	here, _ := os.Getwd()
	fmt.Printf("cache %.3s %v\nat %s\nwith %s\n", cache, err, here, Inside())
	_, owned := user.LookupGroup("own-group")
	group, _ := user.LookupGroup("root")
	fmt.Println("groups", owned, group != nil && group.Gid == "99")
	fmt.Println("path", os.Getenv("PATH"))
	fmt.Println("written", os.WriteFile("/usr/bin/new", nil, 0o644) == nil)
	fmt.Println("mounted", unix.Mount("tmpfs", filepath.Join(dir, "mounted"), "tmpfs", 0, "size=4k") == nil)
}

// entered runs this test program with the root folder dir, and returns what look prints inside and what a shell sees
// outside afterwards. Both start in a mount namespace whose mounts are private, as on a machine without systemd.
func entered(dir, work string) (string, error) {
	cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		`"$0" "$1"; echo "outside $(ls "$1/mounted")"; grep own-group /etc/group; ls -d /usr/bin/own /usr/share; cat /proc/self/mountinfo`, os.Args[0], work)
	cmd.Env, cmd.Dir = append(os.Environ(), roleVariable+"="+dir, Variable+"=/another",
		"PATH=/own/folder:"+os.Getenv("PATH")), work
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestEnter: inside a program sees the root folder's /usr and cannot change it, and the machine's files elsewhere; what
// it mounts is seen outside, and the root folder is not.
func TestEnter(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	outer := t.TempDir()
	root := filepath.Join(outer, "root")
	for name, text := range map[string]string{"root/usr/bin/own": "x", "root/usr/lib/x": "x",
		"root/etc/ld.so.cache": "own cache",
		"root/etc/group":       "root:x:99:\nown-group:x:64999:\n", "work/file": "x", "work/mounted/x": "x"} {
		path := filepath.Join(outer, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("usr/bin", filepath.Join(root, "bin")), Seal(root)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(outer, "link")
	if err := errors.Join(os.Symlink("root", link), Check(root), Check(link)); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(outer, "work")

	out, err := entered(root, work)
	for _, want := range []string{
		"/usr/bin/own true", "/bin/own true", "/usr/share false", filepath.Join(work, "file") + " true",
		"/proc/self/stat true",
		"at " + work, "with " + root, "groups <nil> false", "path /usr/local/sbin:", "/bin:/own/folder:",
		"written false", "mounted true", "outside \n", "\n/usr/share\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%v: it does not say %q:\n%s", err, want, out)
		}
	}
	if _, err := os.Stat(cache); err == nil && !strings.Contains(out, "cache own <nil>") {
		t.Errorf("the cache is the machine's:\n%s", out)
	}
	if strings.Contains(out, "\n/usr/bin/own\n") || strings.Contains(out, "\nown-group:x") ||
		strings.Contains(out, " /usr ro") || strings.Contains(out, " "+cache+" ") {
		t.Errorf("the machine has the root folder's files:\n%s", out)
	}
}

// TestEnterNothing: what is no root folder is not entered, and nothing changes.
func TestEnterNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	none, damaged := t.TempDir(), t.TempDir()
	file := filepath.Join(damaged, "file")
	if err := errors.Join(os.WriteFile(file, []byte("12"), 0o644), Seal(damaged), os.Truncate(file, 1)); err != nil {
		t.Fatal(err)
	}
	for dir, says := range map[string]string{
		none: none + " is no root folder, or not a whole one: `make root` makes it",
		damaged: "the root folder " + damaged +
			" is damaged: it has 1 files of 1 bytes but had 1 files of 2 bytes when it was made. Remove it",
	} {
		out, err := entered(dir, dir)
		if !strings.Contains(out, says) || regexp.MustCompile(` / / \S+ shared:`).MatchString(out) {
			t.Errorf("it does not say %s: %v\n%s", says, err, out)
		}
	}
}
