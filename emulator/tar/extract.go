package main

//lint:file-ignore ST1005 the words are those of Windows' tar

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// maxNames bounds what is kept in memory to set the times of folders.
const maxNames = 1 << 20

// read lists or extracts an archive. One that is compressed with gzip is known by its first bytes.
func (o options) read(in io.Reader, out, errs io.Writer, say func(error)) error {
	if o.file != "-" {
		f, err := os.Open(o.file)
		if err != nil {
			return fmt.Errorf("Error opening archive: Failed to open '%s'", o.file)
		}
		defer f.Close()
		in = f
	}
	buffered := bufio.NewReader(in)
	in = buffered
	if head, _ := buffered.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("Error opening archive: %w", err)
		}
		in = z
	}
	if o.mode == 't' {
		return o.each(in, func(h *tar.Header, _ io.Reader) {
			line := h.Name
			if o.verbose {
				line = fmt.Sprintf("%s  %d %d %10d %s %s", h.FileInfo().Mode(), h.Uid, h.Gid, h.Size,
					h.ModTime.Format("Jan 02 15:04"), h.Name)
			}
			fmt.Fprintln(out, line)
		})
	}

	root, err := os.OpenRoot(o.folder)
	if err != nil {
		return fmt.Errorf("could not chdir to '%s'", o.folder)
	}
	defer root.Close()
	x := extraction{options: o, root: root, folders: map[string]time.Time{}}
	err = o.each(in, func(h *tar.Header, content io.Reader) {
		if err := x.one(h, content, errs); err != nil {
			say(fmt.Errorf("%s: %w", h.Name, err))
		}
	})
	for name, when := range x.folders {
		_ = root.Chtimes(name, when, when) // it may have been replaced
	}
	return err
}

// each calls do for the files of an archive that were asked for.
func (o options) each(in io.Reader, do func(*tar.Header, io.Reader)) error {
	t := tar.NewReader(in)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, _ = io.Copy(io.Discard, in) // whoever writes to our input is done
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return fmt.Errorf("Error reading archive: %w", err)
		}
		if o.wanted(h.Name) && !o.excluded(path.Clean(h.Name)) {
			do(h, t)
		}
	}
}

func (o options) wanted(name string) bool {
	for _, s := range o.paths {
		p := path.Clean(strings.ReplaceAll(s.path, `\`, "/"))
		if c := path.Clean(name); c == p || strings.HasPrefix(c, p+"/") {
			return true
		}
	}
	return len(o.paths) == 0
}

// extraction puts files into a folder. They never leave it: os.Root refuses links that lead out.
type extraction struct {
	options
	root    *os.Root
	folders map[string]time.Time // their times, which files in them change
}

var (
	errAbsolute = errors.New("Path is absolute")
	errUp       = errors.New("Path contains '..'")
	errKind     = errors.New("a file of this kind is not extracted")
	errExists   = errors.New("Already exists")
)

// place is where a file of the archive goes; "" for nowhere.
func (x extraction) place(name string) (string, error) {
	name = strings.ReplaceAll(name, `\`, "/")
	if strings.HasPrefix(name, "/") || len(name) > 1 && name[1] == ':' {
		return "", errAbsolute
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", errUp
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) <= x.strip {
		return "", nil
	}
	return strings.Join(parts[x.strip:], "/"), nil
}

func (x extraction) one(h *tar.Header, content io.Reader, errs io.Writer) error {
	name, err := x.place(h.Name)
	if err != nil || name == "" {
		return err
	}
	if x.verbose {
		fmt.Fprintf(errs, "x %s\n", name)
	}
	if dir := path.Dir(name); dir != "." {
		if err := x.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	st, err := x.root.Lstat(name)
	there := err == nil
	if h.Typeflag == tar.TypeDir {
		if there && !st.IsDir() {
			return errExists
		}
		if len(x.folders) < maxNames && !x.now {
			x.folders[name] = h.ModTime
		}
		return x.root.MkdirAll(name, 0o755)
	}

	if there && x.keep {
		return errExists
	}
	if there && st.IsDir() && st.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%w as a folder", errExists)
	}
	if there {
		if err := x.root.Remove(name); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.file(name, h, content)
	case tar.TypeSymlink:
		return x.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		from, err := x.place(h.Linkname)
		if err != nil {
			return fmt.Errorf("Can't link to %s: %w", h.Linkname, err)
		}
		return x.root.Link(from, name)
	}
	return errKind
}

func (x extraction) file(name string, h *tar.Header, content io.Reader) error {
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode)&0o777|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil || x.now {
		return err
	}
	return x.root.Chtimes(name, h.ModTime, h.ModTime)
}
