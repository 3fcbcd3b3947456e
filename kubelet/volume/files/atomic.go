package files

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/kubelet/volume/disk"
)

// dataLink is the link to the folder with the files of a volume.
const dataLink = "..data"

// Access is who may read the files of a volume. It has effect on Linux only.
type Access struct {
	Group *int64 // fsGroup
}

// Write makes dir hold exactly the wanted files and reports whether it changed anything. Readers see either all
// old or all new files where symbolic links work:
//
//	dir/..2026_01_02_03_04_05.123/sub/key   the files
//	dir/..data -> ..2026_…                  swapped in one step
//	dir/sub    -> ..data/sub                one link per first path element
//
// Where they cannot be made (an account without the privilege; Wine 8 without our DLLs), plain files are replaced one
// by one, each in one step.
//
// Everything goes through a handle of dir, which refuses links that lead out of it. A link that a container puts in the
// way while files are written is refused or removed, not followed.
func Write(dir string, want Content, acc Access) (bool, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Errorf("opening volume: %w", err)
	}
	defer root.Close()

	have, mode, err := readFiles(root)
	if err != nil {
		return false, err
	}
	if mode != layoutNone && equalFiles(have, want) {
		if mode == layoutLinks { // an earlier process may have ended before it was done
			return false, finishLinks(root, want)
		}
		return false, nil
	}

	if mode == layoutNone {
		mode = layoutPlain
		if linksWork(root) {
			mode = layoutLinks
		}
	}

	if mode == layoutPlain {
		return true, writePlain(root, want, acc)
	}
	return true, writeLinked(root, want, acc)
}

type layout int

const (
	layoutNone  layout = iota // nothing was written yet
	layoutLinks               // timestamp folder behind ..data
	layoutPlain               // plain files
)

// readFiles reads the files that an earlier write, maybe of an earlier process, left in a volume.
func readFiles(root *os.Root) (Content, layout, error) {
	base, mode := ".", layoutPlain
	if target, err := root.Readlink(dataLink); err == nil {
		base, mode = filepath.Base(target), layoutLinks
		// An interrupted write may leave a link that leads nowhere, a container one that leads anywhere else.
		if info, err := root.Lstat(base); err != nil || !info.IsDir() {
			return Content{}, layoutLinks, removeIn(root, dataLink)
		}
	}

	have, tree := Content{}, root.FS()
	err := fs.WalkDir(tree, base, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == base {
			return err
		}
		rel := p
		if mode == layoutLinks {
			rel = strings.TrimPrefix(p, base+"/")
		} else if strings.HasPrefix(rel, "..") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := fs.ReadFile(tree, p)
		have[rel] = File{Data: data}
		return err
	})

	if err != nil {
		return nil, layoutNone, fmt.Errorf("reading files of volume: %w", err)
	}
	if mode == layoutPlain && len(have) == 0 {
		return have, layoutNone, nil
	}
	return have, mode, nil
}

// removeIn removes what is called name in the folder of a volume: a file, a link (not its target) or a tree.
func removeIn(root *os.Root, name string) error {
	return disk.RemoveTree(filepath.Join(root.Name(), name))
}

// equalFiles reports whether two sets have the same paths and contents. Modes do not count.
func equalFiles(have, want Content) bool {
	if len(have) != len(want) {
		return false
	}
	for p, w := range want {
		if h, ok := have[p]; !ok || !bytes.Equal(h.Data, w.Data) {
			return false
		}
	}
	return true
}

// linksWork reports whether links to folders work in a volume. It reads a file through one, because Wine reports
// success without making a link.
func linksWork(root *os.Root) bool {
	const real, link = "..probe", "..probelink"
	defer func() { _, _ = removeIn(root, link), removeIn(root, real) }() // they are removed before the next try
	if removeIn(root, link) != nil || root.MkdirAll(real, 0o755) != nil ||
		root.WriteFile(real+"/f", []byte("x"), 0o600) != nil {
		return false
	}

	if root.Symlink(real, link) != nil {
		return false
	}
	if target, err := root.Readlink(link); err != nil || target != real {
		return false
	}
	data, err := root.ReadFile(link + "/f")
	return err == nil && string(data) == "x"
}

// writeLinked writes files behind ..data, and switches to them in one step.
func writeLinked(root *os.Root, want Content, acc Access) error {
	stamp := fmt.Sprintf("..%s", time.Now().UTC().Format("2006_01_02_15_04_05.000000000"))
	if err := writeAll(root, stamp, want, acc); err != nil {
		_ = removeIn(root, stamp)
		return err
	}
	if err := swapLink(root, stamp); err != nil {
		_ = removeIn(root, stamp)
		return fmt.Errorf("switching volume to new files: %w", err)
	}
	return finishLinks(root, want)
}

// writeAll writes all files into a new folder.
func writeAll(root *os.Root, folder string, want Content, acc Access) error {
	if err := root.Mkdir(folder, 0o755); err != nil {
		return fmt.Errorf("making folder of volume files: %w", err)
	}
	fresh, err := root.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("opening folder of volume files: %w", err)
	}
	defer fresh.Close()

	for p, f := range want {
		if err := fresh.MkdirAll(path.Dir(p), 0o755); err != nil {
			return fmt.Errorf("making folder of volume file %s: %w", p, err)
		}
		if err := fresh.WriteFile(p, f.Data, 0o600); err != nil {
			return fmt.Errorf("writing volume file %s: %w", p, err)
		}
	}
	return setAccess(fresh, want, acc)
}

// finishLinks makes a link for each first path element, and removes what is no longer wanted.
func finishLinks(root *os.Root, want Content) error {
	stamp, err := root.Readlink(dataLink)
	if err != nil {
		return fmt.Errorf("reading link to volume files: %w", err)
	}

	tops := map[string]bool{}
	for p := range want {
		top, _, _ := strings.Cut(p, "/")
		tops[top] = true
	}

	// A link that leads to the right place stays, so that whoever has the file open sees no change.
	for top := range tops {
		target := filepath.Join(dataLink, top)
		have, err := root.Readlink(top)
		if err == nil && have == target {
			continue
		}
		if err := removeIn(root, top); err != nil {
			return fmt.Errorf("removing what is in the way of volume file %s: %w", top, err)
		}
		if err := root.Symlink(target, top); err != nil {
			return fmt.Errorf("linking volume file %s: %w", top, err)
		}
	}

	return prune(root, filepath.Base(stamp), tops)
}

// prune removes links to files that are no longer wanted, and the folders of earlier writes. stamp is the folder of
// this write, tops are the wanted links. A folder that a program has open, which Windows does not remove, is left for
// the next write.
func prune(root *os.Root, stamp string, tops map[string]bool) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("listing volume: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == dataLink || name == stamp || tops[name]:
		case strings.HasPrefix(name, ".."):
			_ = removeIn(root, name)
		default:
			if err := removeIn(root, name); err != nil {
				return fmt.Errorf("removing old volume file: %w", err)
			}
		}
	}
	return nil
}

// writePlain writes files without links. They are staged first, so that a failure leaves the old ones.
func writePlain(root *os.Root, want Content, acc Access) error {
	const stage = "..new"
	if err := removeIn(root, stage); err != nil {
		return fmt.Errorf("clearing volume staging: %w", err)
	}
	defer func() { _ = removeIn(root, stage) }() // it is removed before the next try
	if err := writeAll(root, stage, want, acc); err != nil {
		return err
	}

	if err := removeUnwanted(root, want); err != nil {
		return err
	}
	for p := range want {
		if err := root.MkdirAll(path.Dir(p), 0o755); err != nil {
			return fmt.Errorf("making folder of volume file %s: %w", p, err)
		}
		if err := disk.RetryBusy(func() error { return root.Rename(stage+"/"+p, p) }); err != nil {
			return fmt.Errorf("replacing volume file %s: %w", p, err)
		}
	}
	return nil
}

// removeUnwanted removes plain files that are not wanted, and folders that are in the way of files or not needed.
func removeUnwanted(root *os.Root, want Content) error {
	folders := map[string]bool{".": true}
	for p := range want {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			folders[d] = true
		}
	}

	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, wanted := want[p]
		switch {
		case p == "..new":
			return fs.SkipDir
		case d.IsDir() && folders[p], d.Type().IsRegular() && wanted:
			return nil
		}

		if err := removeIn(root, filepath.FromSlash(p)); err != nil {
			return fmt.Errorf("removing old volume file %s: %w", p, err)
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}
