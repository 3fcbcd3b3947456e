package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is one file of an archive: of the disk, or with data of its own.
type entry struct {
	name string // in the archive, with slashes
	path string // on the disk; "": data
	data []byte
	exec bool
	link string // it is a symbolic link to this
}

// read returns the content: that of a file on the disk, or data. A link has none.
func (e entry) read() ([]byte, error) {
	if e.path == "" || e.link != "" {
		return e.data, nil
	}
	return os.ReadFile(e.path)
}

// make writes an archive into the folder of the release and returns its path. A file of that name is replaced.
func (r *release) make(ctx context.Context, a archive) (string, error) {
	entries, err := r.entries(a)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(a.file, ".zip") {
		signed, err := os.MkdirTemp("", "porthole-release")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(signed)
		if entries, err = signedPrograms(ctx, entries, signed); err != nil {
			return "", err
		}
	}
	more, err := r.described(entries)
	if err != nil {
		return "", err
	}
	entries = append(entries, more...)
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })

	target := filepath.Join(r.out, a.file)
	f, err := os.Create(target)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(a.file, ".zip") {
		err = writeZip(f, entries, r.at)
	} else {
		err = r.writeTar(f, a.top, entries)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(target) // half an archive
		return "", err
	}
	return target, nil
}

// entries lists the files of the archive's parts. A part that is not there is an error that names the make target for
// it.
func (r *release) entries(a archive) (list []entry, err error) {
	for _, p := range a.parts {
		found, err := p.entries(r.root)
		list = append(list, found...)
		if errors.Is(err, fs.ErrNotExist) && p.cure != "" {
			return nil, fmt.Errorf("%s is missing: `make %s` builds it", p.from, p.cure)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// entries lists the files of a part, whose place is below root.
func (p part) entries(root string) (list []entry, err error) {
	// A part may be reached over a link, such as a folder of the build.
	from, err := filepath.EvalSymlinks(filepath.Join(root, p.from))
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}

		e := entry{name: path.Join(p.to, filepath.ToSlash(rel)), path: at, exec: p.program}
		if p.modes {
			info, err := d.Info()
			if err != nil {
				return err
			}
			e.exec = info.Mode()&0o100 != 0
		}
		if d.Type()&fs.ModeSymlink != 0 {
			e.link, err = os.Readlink(at)
		}
		list = append(list, e)
		return err
	})
	return list, err
}

// described returns the files that describe the others: the modules in the programs, their licenses, and the sums of
// everything.
func (r *release) described(entries []entry) ([]entry, error) {
	modules, err := modulesOf(entries)
	if err != nil {
		return nil, err
	}
	list, err := licenses(modules, r.modules)
	if err != nil {
		return nil, err
	}
	bill, err := billOf(entries, r.version, r.at)
	if err != nil {
		return nil, err
	}
	list = append(list, entry{name: "sbom.cdx.json", data: bill})

	// The sums are in the order of names, so that they are equal for equal content.
	all := slices.Concat(entries, list)
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var sums bytes.Buffer
	for _, e := range all {
		if e.link != "" {
			continue
		}
		data, err := e.read()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.name)
	}
	return append(list, entry{name: "SHA256SUMS", data: sums.Bytes()}), nil
}

// writeTar writes files below a folder. A file with the content of an earlier one becomes a hard link to it.
func (r *release) writeTar(w io.Writer, top string, entries []entry) error {
	return r.gzip(w, func(w io.Writer) error {
		out := tar.NewWriter(w)
		if err := r.writeEntries(out, top, entries); err != nil {
			return err
		}
		return out.Close()
	})
}

// writeEntries writes the files below top. Of equal contents the first is written and the others
// are hard links, because some programs are there under several names.
func (r *release) writeEntries(out *tar.Writer, top string, entries []entry) error {
	first := map[[sha256.Size]byte]string{}
	for _, e := range entries {
		data, err := e.read()
		if err != nil {
			return err
		}
		h := tar.Header{Name: path.Join(top, e.name), Mode: 0o644, ModTime: r.at, Size: int64(len(data)),
			Format: tar.FormatPAX}
		if e.exec {
			h.Mode = 0o755
		}

		sum := sha256.Sum256(data)
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		} else if same := first[sum]; same != "" && len(data) > 0 {
			h.Typeflag = tar.TypeLink
			h.Linkname = same
			h.Size = 0
			data = nil
		} else {
			first[sum] = h.Name
		}
		if err := writeMember(out, h, data); err != nil {
			return err
		}
	}
	return nil
}

// writeZip writes an archive for Windows, which has neither links nor modes.
func writeZip(w io.Writer, entries []entry, at time.Time) error {
	out := zip.NewWriter(w)
	for _, e := range entries {
		data, err := e.read()
		if err != nil {
			return err
		}
		h := zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(0o644)
		f, err := out.CreateHeader(&h)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
	}
	return out.Close()
}

// sumsOf returns the sums of files in the form of sha256sum, by name without folder.
func sumsOf(files []string) ([]byte, error) {
	var out bytes.Buffer
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), filepath.Base(f))
	}
	return out.Bytes(), nil
}
