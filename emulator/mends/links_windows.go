package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linksIn makes, in a new folder, a file, a folder with a file, and links to both: to the file by a relative, to the
// folder by a whole path.
func linksIn() (dir string, err error) {
	dir, err = os.MkdirTemp("", "links")
	return dir, errors.Join(err,
		os.Mkdir(filepath.Join(dir, "folder"), 0o755),
		os.WriteFile(filepath.Join(dir, "folder", "inner"), []byte("inner"), 0o600),
		os.WriteFile(filepath.Join(dir, "file"), []byte("file"), 0o600),
		os.Symlink(`folder\inner`, filepath.Join(dir, "to-file")),
		os.Symlink(`\\?\`+filepath.Join(dir, "folder"), filepath.Join(dir, "to-folder")))
}

// expect returns an error unless the condition holds.
func expect(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// links makes links, reads them, follows them and lists them.
func links() error {
	dir, err := linksIn()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	one := filepath.Join(dir, "to-file")
	two := filepath.Join(dir, "to-folder")

	var errs []error
	for link, want := range map[string]string{one: `folder\inner`, two: filepath.Join(dir, "folder")} {
		target, err := os.Readlink(link)
		info, e := os.Lstat(link)
		errs = append(errs, err, e, expect(target == want, "%s leads to %q, not %q", link, target, want))
		if e == nil {
			errs = append(errs, expect(info.Mode().Type() == fs.ModeSymlink, "%s is %v", link, info.Mode()))
		}
	}
	for _, path := range []string{one, filepath.Join(two, "inner")} {
		data, err := os.ReadFile(path)
		errs = append(errs, err, expect(string(data) == "inner", "%s holds %q", path, data))
	}
	if info, err := os.Stat(two); err != nil || !info.IsDir() {
		errs = append(errs, fmt.Errorf("what %s leads to: %v, %v", two, info, err))
	}

	entries, err := os.ReadDir(dir)
	kinds := ""
	for _, e := range entries {
		kinds += fmt.Sprintf("%s %v, ", e.Name(), e.Type())
	}
	errs = append(errs, err,
		expect(kinds == "file ----------, folder d---------, to-file L---------, to-folder L---------, ",
			"the folder lists %s", kinds))
	errs = append(errs, expect(os.Symlink("x", one) != nil, "a link replaces what is there"))

	// Links that lead nowhere are listed and removed too.
	errs = append(errs, os.Symlink("absent1", filepath.Join(dir, "x")), os.Symlink("absent2", filepath.Join(dir, "y")))
	for range 2 {
		entries, err = os.ReadDir(dir)
		errs = append(errs, err, expect(len(entries) == 6 && entries[4].Type() == fs.ModeSymlink &&
			entries[5].Name() == "y", "the folder lists %v", entries))
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// linkNames removes and renames links: what they lead to stays.
func linkNames() error {
	dir, err := linksIn()
	if err != nil {
		return err
	}
	moved := filepath.Join(dir, "moved")
	err = errors.Join(os.Rename(filepath.Join(dir, "to-folder"), moved), os.Remove(filepath.Join(dir, "to-file")))
	target, e := os.Readlink(moved)
	err = errors.Join(err, e,
		expect(target == filepath.Join(dir, "folder"), "after its move the link leads to %q", target))
	err = errors.Join(err, os.Mkdir(filepath.Join(dir, "tree"), 0o755),
		os.Symlink(filepath.Join(dir, "folder"), filepath.Join(dir, "tree", "link")),
		os.RemoveAll(filepath.Join(dir, "tree")), os.Remove(moved))

	data, e := os.ReadFile(filepath.Join(dir, "folder", "inner"))
	err = errors.Join(err, e, expect(string(data) == "inner", "the file holds %q", data))
	entries, e := os.ReadDir(dir)
	return errors.Join(err, e, expect(len(entries) == 2, "left: %v", entries), os.RemoveAll(dir))
}

// linkRoots does what os.Root does: it follows links below the folder, and refuses those that lead out.
func linkRoots() error {
	dir, err := linksIn()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	// Links within the folder, one over another, and one that leads out.
	err = errors.Join(root.Symlink("folder", "rooted"), root.Symlink(`rooted\inner`, "twice"),
		root.Symlink(`..\..\..\windows`, "out"))
	for _, name := range []string{"rooted/inner", "twice"} {
		data, e := root.ReadFile(name)
		err = errors.Join(err, e, expect(string(data) == "inner", "%s holds %q", name, data))
	}
	target, e := root.Readlink("rooted")
	err = errors.Join(err, e, expect(target == "folder", "the link leads to %q", target))
	_, e = root.Stat(`out\system32`)
	err = errors.Join(err, expect(e != nil && strings.Contains(e.Error(), "escapes"),
		"a link leads out of the folder: %v", e))
	err = errors.Join(err, root.Rename("rooted", "other"), root.Remove("other"), root.RemoveAll("out"))
	_, e = root.Lstat("other")
	return errors.Join(err, expect(errors.Is(e, fs.ErrNotExist), "a removed link is there: %v", e))
}
