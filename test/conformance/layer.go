package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// layer collects the files of one image layer. The same files give the same bytes.
type layer struct{ entries map[string]entry }

type entry struct {
	header  tar.Header
	content []byte
}

func newLayer() *layer { return &layer{entries: map[string]entry{}} }

func (l *layer) add(h tar.Header, content []byte) {
	h.ModTime = time.Unix(0, 0)
	h.Size = int64(len(content))
	l.entries[h.Name] = entry{header: h, content: content}
}

// dir adds an empty folder.
func (l *layer) dir(name string, mode int64) {
	l.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

// link adds a symbolic link called name to target.
func (l *layer) link(target, name string) {
	l.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

// same adds another name of a file that is in the layer.
func (l *layer) same(as, name string) {
	l.add(tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: as, Mode: 0o755}, nil)
}

// text adds a file with this content.
func (l *layer) text(name, content string) {
	l.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, []byte(content))
}

// file adds a copy of a file of this machine.
func (l *layer) file(name, from string, mode int64) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("reading what goes into an image: %w", err)
	}
	l.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, content)
	return nil
}

// Folders of shared libraries on Debian; a layer has them in the same places.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/lib", "/usr/lib"}

// program adds a program of this machine with its loader and all libraries that it needs.
func (l *layer) program(name, from string) error {
	if err := l.file(name, from, 0o755); err != nil {
		return err
	}
	return l.libraries(from)
}

// libraries adds the loader and the shared libraries that a program needs, and those that they need. A library that is there
// already is not looked at again, so that two that need each other end the search.
func (l *layer) libraries(of string) error {
	f, err := elf.Open(of)
	if err != nil {
		return fmt.Errorf("reading the libraries that %s needs: %w", of, err)
	}
	defer f.Close()
	if interp := f.Section(".interp"); interp != nil {
		data, err := interp.Data()
		if err != nil {
			return err
		}
		loader := string(bytes.TrimRight(data, "\x00"))
		if err := l.file(strings.TrimPrefix(loader, "/"), loader, 0o755); err != nil {
			return err
		}
	}

	needed, err := f.ImportedLibraries()
	if err != nil {
		return err
	}

	for _, lib := range needed {
		path, err := findLibrary(lib)
		if err != nil {
			return fmt.Errorf("%w (needed by %s)", err, of)
		}
		name := strings.TrimPrefix(path, "/")
		if _, have := l.entries[name]; have {
			continue
		}
		if err := l.file(name, path, 0o755); err != nil {
			return err
		}
		if err := l.libraries(path); err != nil {
			return err
		}
	}

	return nil
}

func findLibrary(name string) (string, error) {
	for _, dir := range libraryDirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("library %s is in none of %v: %w", name, libraryDirs, os.ErrNotExist)
}

// tar is the layer as an archive, in the order of the names, so that a folder comes before what is in it; further names of
// files come last, when all files are there.
func (l *layer) tar() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	names := slices.Sorted(maps.Keys(l.entries))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(l.rank(a), l.rank(b)) })
	for _, name := range names {
		e := l.entries[name]
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", name, err)
		}
	}
	return out.Bytes(), w.Close()
}

func (l *layer) rank(name string) int {
	if l.entries[name].header.Typeflag == tar.TypeLink {
		return 1
	}
	return 0
}

// appletsOf asks busybox for the commands that it is.
func appletsOf(busybox string) ([]string, error) {
	out, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the applets of %s: %w", busybox, err)
	}
	names := strings.Fields(string(out))
	if len(names) == 0 {
		return nil, errors.New("busybox lists no applets")
	}
	return names, nil
}
