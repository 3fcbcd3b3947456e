package archive

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"porthole.dev/porthole/internal/testkit/debian"
)

// Root is a root file system in which `make test-archive` runs a cluster.
type Root struct {
	Name  string // a suite of Debian, or busybox
	Title string // for people
}

// Roots are those that the test takes, and that the table of versions in README.md names.
var Roots = []Root{
	{"bookworm", "Debian 12"}, {"trixie", "Debian 13"}, {"testing", "Debian testing"}, {busybox, "a static busybox"},
}

const busybox = "busybox"

// Make makes the root file system in an empty folder: what debootstrap makes at least of a suite, or one static program
// with its names. It needs root.
func (r Root) Make(dir string) error {
	if r.Name != busybox {
		return debian.Bootstrap(dir, r.Name)
	}
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return fmt.Errorf("%w: `make deps` installs it", err)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(bin, busybox), program, 0o755); err != nil {
		return err
	}
	if out, err := exec.Command("chroot", dir, "/bin/busybox", "--install", "-s", "/bin").CombinedOutput(); err != nil {
		return fmt.Errorf("busybox --install: %w: %s", err, out)
	}
	return nil
}
