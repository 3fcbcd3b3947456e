package ownroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// sealName is the file of a root folder that says how much is in it. It is written last: a folder without it is
// unfinished.
const sealName = ".porthole-root"

// Seal marks a root folder as whole.
func Seal(dir string) error {
	n, err := count(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sealName), []byte(n.String()), 0o644)
}

// Check returns an error if a folder is no root folder, or if its files are not as many and as large as they were when
// Seal counted them. It does not read them, because it is called at each start of a program.
func Check(dir string) error {
	seal, err := os.ReadFile(filepath.Join(dir, sealName))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf(
			"%s is no root folder, or not a whole one: `make root` makes it, and the release archive has it", dir)
	}
	if err != nil {
		return err
	}
	n, err := count(dir)
	if err != nil {
		return err
	}
	if n.String() != string(seal) {
		return fmt.Errorf("the root folder %s is damaged: it has %sbut had %swhen it was made. "+
			"Remove it; then unpack the release archive again, or call `make root`", dir, line(n.String()),
			line(string(seal)))
	}
	return nil
}

// line replaces the end of a line by a space.
func line(text string) string { return fmt.Sprintf("%.*s ", max(len(text)-1, 0), text) }

// content is what a root folder has.
type content struct {
	files int // links too
	bytes int64
}

func (c content) String() string { return fmt.Sprintf("%d files of %d bytes\n", c.files, c.bytes) }

func count(dir string) (c content, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return c, err
	}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == filepath.Join(dir, sealName) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		c.files++
		c.bytes += info.Size()
		return nil
	})
	return c, err
}
