// Package debian makes root file systems of Debian's releases with debootstrap, from the mirror that the
// machine's apt uses.
package debian

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Bootstrap makes a root file system in an empty folder: the variant minbase of a suite, and further packages.
// It needs root.
func Bootstrap(dir, suite string, packages ...string) error {
	if _, err := exec.LookPath("debootstrap"); err != nil {
		return errors.New("debootstrap is missing: `tools/deps archive` installs it")
	}
	from, err := mirror()
	if err != nil {
		return err
	}
	args := []string{"--variant=minbase"}
	if len(packages) > 0 {
		args = append(args, "--include="+strings.Join(packages, ","))
	}
	args = append(args, suite, dir, from)

	out, err := exec.Command("debootstrap", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("debootstrap %s: %w: %s", strings.Join(args, " "), err, lastLines(string(out), 5))
	}
	return nil
}

// mirror is the address of a mirror of Debian that the machine's apt uses.
func mirror() (string, error) {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages", "Component: main").Output()
	if err != nil {
		return "", fmt.Errorf("asking apt for its sources: %w", err)
	}
	for address := range strings.FieldsSeq(string(out)) {
		if strings.HasSuffix(strings.TrimSuffix(address, "/"), "/debian") {
			return address, nil
		}
	}
	return "", fmt.Errorf("apt has no source that ends with /debian: %s", out)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
