// Package archive makes the release archive of what is built, and unpacks it, for tests that begin as users do.
package archive

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// Version of the archives.
const Version = "v0.0.1-test"

// Unpack packs what is built in a checkout into the archive for Linux, in the folder base, and unpacks it there
// with tar. It returns the folder of the unpacked archive, and how long unpacking took.
func Unpack(checkout, base string) (dir string, took time.Duration, err error) {
	release := exec.Command("go", "run", "./tools/release", "-version", Version, "-out", base, "-only", "linux")
	release.Dir = checkout
	if out, err := release.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("making the archive: %w\n%s", err, out)
	}

	start := time.Now()
	name := "porthole-" + Version + "-linux-amd64"
	out, err := exec.Command("tar", "-C", base, "-xf", filepath.Join(base, name+".tar.gz")).CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("unpacking: %w\n%s", err, out)
	}
	return filepath.Join(base, name), time.Since(start), nil
}
