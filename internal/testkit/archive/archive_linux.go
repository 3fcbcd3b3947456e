// Package archive makes the release archive of what is built, and unpacks it, for tests that begin as users do. It
// makes the image of a cluster likewise.
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
	if err := release(checkout, base, "linux"); err != nil {
		return "", 0, err
	}

	start := time.Now()
	name := "porthole-" + Version + "-linux-amd64"
	out, err := exec.Command("tar", "-C", base, "-xf", filepath.Join(base, name+".tar.gz")).CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("unpacking: %w\n%s", err, out)
	}
	return filepath.Join(base, name), time.Since(start), nil
}

// Image makes the container image of a cluster from what is built in a checkout. file is an OCI archive in the folder
// base, name the image's name once it is loaded.
func Image(checkout, base string) (file, name string, err error) {
	if err := release(checkout, base, "cluster"); err != nil {
		return "", "", err
	}
	return filepath.Join(base, "porthole-"+Version+".oci.tar"), "docker.io/porthole/cluster:" + Version, nil
}

// release makes one part of a release in the folder out.
func release(checkout, out, part string) error {
	c := exec.Command("go", "run", "./tools/release", "-version", Version, "-out", out, "-only", part)
	c.Dir = checkout
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("making the part %s of a release: %w\n%s", part, err, out)
	}
	return nil
}
