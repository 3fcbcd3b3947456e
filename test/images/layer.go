package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Layer collects the files of one image layer. The same files give the same bytes.
type Layer struct{ entries map[string]entry }

type entry struct {
	header  tar.Header
	content []byte
}

func NewLayer() *Layer { return &Layer{entries: map[string]entry{}} }

func (l *Layer) add(h tar.Header, content []byte) {
	h.ModTime = time.Unix(0, 0)
	h.Size = int64(len(content))
	l.entries[h.Name] = entry{header: h, content: content}
}

// Dir adds an empty folder.
func (l *Layer) Dir(name string, mode int64) {
	l.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

// ContainerUser is the SID of that user in every Windows container.
var ContainerUser = []byte{1, 3, 0, 0, 0, 0, 0, 5, 93, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0} // S-1-5-93-2-2

// Owner gives what is there under the name an owner of Windows, by his SID. A layer has a security descriptor for that
// (go-winio, backuptar).
func (l *Layer) Owner(name string, sid []byte) {
	const selfRelative, head = 0x80, 20 // of SECURITY_DESCRIPTOR_RELATIVE (winnt.h)
	descriptor := make([]byte, head, head+len(sid))
	descriptor[0] = 1
	descriptor[3] = selfRelative
	descriptor[4] = head
	e := l.entries[name]
	e.header.PAXRecords = map[string]string{
		"MSWINDOWS.rawsd": base64.StdEncoding.EncodeToString(append(descriptor, sid...))}
	l.entries[name] = e
}

// Link adds a symbolic link called name to target.
func (l *Layer) Link(target, name string) {
	l.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

// Same adds another name of a file that is in the layer.
func (l *Layer) Same(as, name string) {
	l.add(tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: as, Mode: 0o755}, nil)
}

// Text adds a regular file to the layer. name is its path in the layer, with slashes; everybody may read it.
func (l *Layer) Text(name, content string) {
	l.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, []byte(content))
}

// File adds a copy of a file of this machine.
func (l *Layer) File(name, from string, mode int64) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("reading what goes into an image: %w", err)
	}
	l.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, content)
	return nil
}

// Folders of shared libraries on Debian; a layer has them in the same places.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/lib", "/usr/lib"}

// Program adds a program of this machine with its loader and all libraries that it needs.
func (l *Layer) Program(name, from string) error {
	if err := l.File(name, from, 0o755); err != nil {
		return err
	}
	return l.libraries(from)
}

// libraries adds the loader and the shared libraries that a program needs, and those that they need. A library that is
// there already is not looked at again, so that two that need each other end the search.
func (l *Layer) libraries(of string) error {
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
		if err := l.File(strings.TrimPrefix(loader, "/"), loader, 0o755); err != nil {
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
		if err := l.File(name, path, 0o755); err != nil {
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

// Tar is the layer as an archive, in the order of the names, so that a folder comes before what is in it; further
// names of files come last, when all files are there.
func (l *Layer) Tar() ([]byte, error) {
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

func (l *Layer) rank(name string) int {
	if l.entries[name].header.Typeflag == tar.TypeLink {
		return 1
	}
	return 0
}
