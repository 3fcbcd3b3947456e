package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const lockHead = "# The packages of Debian " + suite + " that the root folder of emulated hosts is made of:\n" +
	"# name, version, size, SHA-256, path below a mirror.\n" +
	"# `tools/go run ./tools/root lock tools/root/root.lock` writes this file from the newest ones.\n"

func formatLock(list []*pkg) string {
	var s strings.Builder
	s.WriteString(lockHead)
	for _, p := range list {
		fmt.Fprintf(&s, "%s %s %d %s %s\n", p.name, p.version, p.size, p.sha256, p.path)
	}
	return s.String()
}

// parseLock refuses a lock that names no package.
func parseLock(text string) (list []*pkg, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 5 {
			return nil, fmt.Errorf("root.lock has a line that is none of a package: %q", line)
		}
		p := &pkg{name: f[0], version: f[1], sha256: f[3], path: f[4]}
		if p.size, err = strconv.ParseInt(f[2], 10, 64); err != nil {
			return nil, fmt.Errorf("root.lock, package %s: %w", p.name, err)
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("root.lock names no package")
	}
	return list, nil
}

// makeVersion changes with what is made of the packages, so that root folders are made again.
const makeVersion = "root 6"

// checksum is the name of a root folder. Other packages, another way to unpack them, or another program of ours give
// another name.
func (o options) checksum() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s", makeVersion, o.lock)
	for _, name := range o.programs {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %x\n", filepath.Base(name), sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
