package install

import (
	"errors"
	"path/filepath"

	"porthole.dev/porthole/join/step"
)

// SaveJournal writes node.json.
func SaveJournal(path string, j step.Journal) error {
	text, err := j.Text()
	if err != nil {
		return err
	}
	return SaveState(path, text)
}

// SaveState replaces a file of the folder of node.json, flushed to the disk.
func SaveState(path string, text []byte) error {
	if err := private(filepath.Dir(path)); err != nil {
		return err
	}
	return write(path, text, 0o600)
}

// DropState removes files of that folder.
func DropState(paths ...string) error { return remove(paths...) }

// DropJournal removes node.json: the machine is no node any more.
func DropJournal(path string) error {
	return errors.Join(remove(path), prune(filepath.Dir(path)))
}
