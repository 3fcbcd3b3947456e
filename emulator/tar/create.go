package main

//lint:file-ignore ST1005 the words are those of Windows' tar

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// create writes an archive of the paths.
func (o options) create(out, errs io.Writer, say func(error)) (err error) {
	if o.file != "-" {
		f, err := os.Create(o.file)
		if err != nil {
			return fmt.Errorf("Failed to open '%s': %w", o.file, err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	if o.gzip {
		z := gzip.NewWriter(out)
		defer func() { err = errors.Join(err, z.Close()) }()
		out = z
	}

	t := tar.NewWriter(out)
	for _, s := range o.paths {
		root := s.path
		if !filepath.IsAbs(root) && !strings.HasPrefix(root, `\`) && !strings.HasPrefix(root, "/") {
			root = filepath.Join(s.folder, root)
		}
		err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				say(fmt.Errorf("%s: %w", s.path, err))
				return nil
			}
			rest, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			name := archiveName(s.path, rest)
			if o.excluded(name) {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			return o.add(t, file, name, errs, say)
		})
		if err != nil {
			return err
		}
	}
	return t.Close()
}

// archiveName is the name of a file in the archive: with slashes, and below the folder of whoever extracts it.
func archiveName(path, rest string) string {
	name := filepath.ToSlash(path)
	if v := filepath.VolumeName(path); v != "" {
		name = name[len(v):]
	}
	name = strings.TrimRight(strings.TrimLeft(name, "/"), "/")
	for strings.HasPrefix(name, "./") && name != "./" {
		name = strings.TrimLeft(name[2:], "/")
	}
	if rest != "." {
		name = strings.TrimPrefix(name+"/"+filepath.ToSlash(rest), "/")
	}
	if name == "" {
		return "."
	}
	return name
}

// add writes one file. An error is that of the archive; one of the file is said.
func (o options) add(t *tar.Writer, file, name string, errs io.Writer, say func(error)) error {
	look := os.Lstat
	if o.dereference {
		look = os.Stat
	}
	info, err := look(file)
	if err != nil {
		say(fmt.Errorf("%s: %w", name, err))
		return nil
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(file); err != nil {
			say(fmt.Errorf("%s: %w", name, err))
			return nil
		}
	}
	header, err := tar.FileInfoHeader(info, filepath.ToSlash(target))
	if err != nil {
		say(fmt.Errorf("%s: %w", name, err)) // a socket
		return nil
	}
	if header.Name = name; info.IsDir() {
		header.Name += "/"
	}
	header.ModTime = header.ModTime.Truncate(time.Second) // Go would round it up, into the future
	if o.verbose {
		fmt.Fprintf(errs, "a %s\n", name)
	}

	if !info.Mode().IsRegular() {
		return t.WriteHeader(header)
	}
	f, err := os.Open(file)
	if err != nil {
		say(fmt.Errorf("%s: %w", name, err))
		return nil
	}
	defer f.Close()
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.CopyN(t, f, header.Size)
	if err != nil && n < header.Size { // it has become shorter: the archive stays whole
		say(fmt.Errorf("%s: Truncated file: %w", name, err))
		_, err = io.CopyN(t, zeros{}, header.Size-n)
	}
	return err
}

// zeros reads zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
