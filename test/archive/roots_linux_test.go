package archive

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rootFiles is a root file system that a container gets.
type rootFiles struct {
	name string
	make func(t *testing.T, dir string)
}

var roots = []rootFiles{
	{"busybox", busybox},
	{"bookworm", debian("bookworm")},
	{"trixie", debian("trixie")},
	{"testing", debian("testing")},
}

// busybox makes a root file system of one static program with its names, and folders to mount on.
func busybox(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	program, err := os.ReadFile("/bin/busybox")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "bin/busybox"), program, 0o755))
	sh(t, "chroot %s /bin/busybox --install -s /bin", dir)
}

// debian makes the smallest root file system of a release of Debian.
func debian(suite string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if _, err := exec.LookPath("debootstrap"); err != nil {
			t.Fatal("debootstrap is missing: tools/deps archive installs it")
		}
		sh(t, "debootstrap --variant=minbase %s %s %s >%[2]s.log || { tail -n 5 %[2]s.log; exit 1; }", suite, dir, mirror(t))
	}
}

// mirror is the address of a mirror of Debian that the machine's apt uses.
func mirror(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main").Output()
	must(t, err)
	for address := range strings.FieldsSeq(string(out)) {
		if strings.HasSuffix(strings.TrimSuffix(address, "/"), "/debian") {
			return address
		}
	}
	t.Fatalf("apt has no source that ends with /debian: %s", out)
	return ""
}
