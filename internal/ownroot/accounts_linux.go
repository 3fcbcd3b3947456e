package ownroot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// accountFiles have users and groups, a line each that begins with a name (passwd(5), group(5)). Those of a root
// folder have what installing its packages would add: FRR refuses to run without a user of its own.
var accountFiles = []string{"/etc/passwd", "/etc/group"}

// accounts returns what such a file has to be: the machine's, with those of the root folder that it lacks. It is ""
// if the machine's lacks none, or if there is no such file.
func accounts(dir, name string) (string, error) {
	have, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}

	known := map[string]bool{}
	for line := range strings.Lines(string(have)) {
		user, _, _ := strings.Cut(line, ":")
		known[user] = true
	}
	more := ""
	for line := range strings.Lines(string(own)) {
		if user, _, _ := strings.Cut(line, ":"); !known[user] {
			more += line
		}
	}
	if more == "" {
		return "", nil
	}
	return strings.TrimSuffix(string(have), "\n") + "\n" + more, nil
}

// putAccounts shows files with accounts in the new root. They lie in its own file system, where nobody sees them.
func putAccounts(base string, files map[string]string) error {
	for name, text := range files {
		at := filepath.Join(base, name)
		hidden := filepath.Join(base, "."+filepath.Base(name))
		err := errors.Join(
			os.WriteFile(hidden, []byte(text), 0o644),
			unix.Mount(hidden, at, "", unix.MS_BIND, ""),
			os.Remove(hidden),
		)
		if err != nil {
			return err
		}
	}
	return nil
}
