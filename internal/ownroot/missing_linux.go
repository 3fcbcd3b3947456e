package ownroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// commonFolders and commonFiles are what programs expect on each Linux (Filesystem Hierarchy Standard 3.0), and the
// root of a container may not have: containerd makes a pod's hosts file of the machine's.
var (
	commonFolders = map[string]fs.FileMode{
		"/etc": 0o755, "/run": 0o755, "/var": 0o755, "/root": 0o700, "/tmp": 0o777 | fs.ModeSticky,
	}
	commonFiles = map[string]string{
		"/etc/hosts":  "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
		"/etc/group":  "root:x:0:\n",
	}
)

// makeMissing makes each common folder and file that the machine lacks.
func makeMissing() error {
	for name, mode := range commonFolders {
		err := os.Mkdir(name, 0o700)
		if err == nil {
			err = os.Chmod(name, mode)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("this machine has no %s: %w", name, err)
		}
	}

	for name, text := range commonFiles {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("this machine has no %s: %w", name, err)
		}
	}
	return nil
}
