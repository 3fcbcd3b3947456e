package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const dataLink = "..data"

// access says who may read the files of a volume; it has effect on Linux only.
type access struct {
	group *int64 // fsGroup
}

// writeFiles makes dir hold exactly the wanted files and reports whether it changed anything. Readers see either all
// old or all new files where symbolic links work:
//
//	dir/..2026_01_02_03_04_05.123/sub/key   the files
//	dir/..data -> ..2026_…                  swapped in one step
//	dir/sub    -> ..data/sub                one link per first path element
//
// Where they do not (Wine answers success and makes nothing; Windows before 1803), plain files are replaced one by
// one, each in one step.
func writeFiles(dir string, want content, acc access) (bool, error) {
	have, mode, err := readFiles(dir)
	if err != nil {
		return false, err
	}
	if mode != layoutNone && equalFiles(have, want) {
		if mode == layoutLinks { // an earlier process may have ended before it was done
			return false, finishLinks(dir, want)
		}
		return false, nil
	}
	if mode == layoutNone {
		mode = layoutPlain
		if linksWork(dir) {
			mode = layoutLinks
		}
	}
	if mode == layoutPlain {
		return true, writePlain(dir, want, acc)
	}
	return true, writeLinked(dir, want, acc)
}

type layout int

const (
	layoutNone  layout = iota // nothing was written yet
	layoutLinks               // timestamp folder behind ..data
	layoutPlain               // plain files
)

// readFiles reads back what an earlier write, maybe of an earlier process, left in dir.
func readFiles(dir string) (content, layout, error) {
	base, mode := dir, layoutPlain
	if target, err := os.Readlink(filepath.Join(dir, dataLink)); err == nil {
		base, mode = filepath.Join(dir, filepath.Base(target)), layoutLinks
	}
	have := content{}
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, p)
		if err != nil || rel == "." {
			return err
		}
		if mode == layoutPlain && strings.HasPrefix(rel, "..") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(p)
		have[filepath.ToSlash(rel)] = file{data: data}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && mode == layoutLinks { // interrupted: the link points nowhere
		return content{}, layoutLinks, os.Remove(filepath.Join(dir, dataLink))
	}
	if err != nil {
		return nil, layoutNone, fmt.Errorf("reading files of volume: %w", err)
	}
	if mode == layoutPlain && len(have) == 0 {
		return have, layoutNone, nil
	}
	return have, mode, nil
}

func equalFiles(have, want content) bool {
	if len(have) != len(want) {
		return false
	}
	for p, w := range want {
		if h, ok := have[p]; !ok || !bytes.Equal(h.data, w.data) {
			return false
		}
	}
	return true
}

// linksWork makes a link to a folder and reads a file through it, because a success answered is no proof.
func linksWork(dir string) bool {
	real, link := filepath.Join(dir, "..probe"), filepath.Join(dir, "..probelink")
	defer removeTree(real)
	defer os.Remove(link)
	_ = os.Remove(link)
	if os.MkdirAll(real, 0o755) != nil || os.WriteFile(filepath.Join(real, "f"), []byte("x"), 0o600) != nil {
		return false
	}
	if os.Symlink("..probe", link) != nil {
		return false
	}
	if target, err := os.Readlink(link); err != nil || target != "..probe" {
		return false
	}
	data, err := os.ReadFile(filepath.Join(link, "f"))
	return err == nil && string(data) == "x"
}

func writeLinked(dir string, want content, acc access) error {
	stamp := fmt.Sprintf("..%s", time.Now().UTC().Format("2006_01_02_15_04_05.000000000"))
	fresh := filepath.Join(dir, stamp)
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return fmt.Errorf("making folder of volume files: %w", err)
	}
	for p, f := range want {
		if err := writeOne(fresh, p, f); err != nil {
			_ = removeTree(fresh)
			return err
		}
	}
	if err := setAccess(fresh, want, acc); err != nil {
		_ = removeTree(fresh)
		return err
	}
	if err := swapLink(dir, stamp); err != nil {
		_ = removeTree(fresh)
		return fmt.Errorf("switching volume to new files: %w", err)
	}
	return finishLinks(dir, want)
}

// finishLinks makes the links to the files behind ..data and removes what is no longer wanted.
func finishLinks(dir string, want content) error {
	stamp, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil {
		return fmt.Errorf("reading link to volume files: %w", err)
	}
	tops := map[string]bool{}
	for p := range want {
		top, _, _ := strings.Cut(p, "/")
		tops[top] = true
	}
	for top := range tops {
		link, target := filepath.Join(dir, top), filepath.Join(dataLink, top)
		have, err := os.Readlink(link)
		if err == nil && have == target {
			continue
		}
		if err := removeTree(link); err != nil {
			return fmt.Errorf("removing what is in the way of volume file %s: %w", top, err)
		}
		if err := os.Symlink(target, link); err != nil {
			return fmt.Errorf("linking volume file %s: %w", top, err)
		}
	}
	return prune(dir, filepath.Base(stamp), tops)
}

// prune removes links to files that are no longer wanted and the folders of earlier writes. A folder that is still
// open (Windows refuses to remove it) is left for the next write.
func prune(dir, stamp string, tops map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing volume: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == dataLink || name == stamp || tops[name]:
		case strings.HasPrefix(name, ".."):
			_ = removeTree(filepath.Join(dir, name))
		default:
			if err := removeTree(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("removing old volume file: %w", err)
			}
		}
	}
	return nil
}

func writeOne(dir, rel string, f file) error {
	full := filepath.Join(dir, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return fmt.Errorf("making folder of volume file %s: %w", rel, err)
	}
	if err := os.WriteFile(full, f.data, 0o600); err != nil {
		return fmt.Errorf("writing volume file %s: %w", rel, err)
	}
	return nil
}

func writePlain(dir string, want content, acc access) error {
	const fresh = "..new"
	stage := filepath.Join(dir, fresh)
	if err := removeTree(stage); err != nil {
		return fmt.Errorf("clearing volume staging: %w", err)
	}
	if err := os.Mkdir(stage, 0o755); err != nil {
		return fmt.Errorf("making volume staging: %w", err)
	}
	defer removeTree(stage)
	for p, f := range want {
		if err := writeOne(stage, p, f); err != nil {
			return err
		}
	}
	if err := setAccess(stage, want, acc); err != nil {
		return err
	}
	if err := removeUnwanted(dir, want); err != nil {
		return err
	}
	for p := range want {
		target := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("making folder of volume file %s: %w", p, err)
		}
		if err := replaceFile(filepath.Join(stage, filepath.FromSlash(p)), target); err != nil {
			return fmt.Errorf("replacing volume file %s: %w", p, err)
		}
	}
	return nil
}

// removeUnwanted removes plain files that no longer belong, and folders that thereby became empty or are in the way.
func removeUnwanted(dir string, want content) error {
	folders := map[string]bool{".": true}
	for p := range want {
		for d := filepath.Dir(filepath.FromSlash(p)); d != "."; d = filepath.Dir(d) {
			folders[d] = true
		}
	}
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		_, wanted := want[filepath.ToSlash(rel)]
		switch {
		case rel == "..new":
			return filepath.SkipDir
		case d.IsDir() && folders[rel], !d.IsDir() && wanted:
			return nil
		}
		if err := removeTree(p); err != nil {
			return fmt.Errorf("removing old volume file %s: %w", rel, err)
		}
		if d.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
}

// retryBusy tries again for about a second while another program holds the file, as virus scanners do on Windows.
func retryBusy(try func() error) error {
	wait := 5 * time.Millisecond
	for {
		err := try()
		if err == nil || !isBusy(err) || wait > 700*time.Millisecond {
			return err
		}
		time.Sleep(wait)
		wait *= 2
	}
}

func replaceFile(from, to string) error {
	return retryBusy(func() error { return os.Rename(from, to) })
}
