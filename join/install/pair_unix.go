//go:build !windows

package install

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// storePair keeps a certificate as client-go's store does, which renews it: a file with the date in its name, and a
// link to that. The link is replaced in one step.
func storePair(path string, pair []byte) error {
	dir := filepath.Dir(path)
	name := strings.TrimSuffix(filepath.Base(path), "-current.pem") + "-" + time.Now().Format("2006-01-02-15-04-05") +
		".pem"
	if err := write(filepath.Join(dir, name), pair, 0o600); err != nil {
		return err
	}
	temp := path + ".new"
	if err := remove(temp); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(dir, name), temp); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
