package main

import (
	"debug/elf"
	"debug/pe"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// checkLinks returns an error that names each program and library of the root which could not be loaded, because it
// is linked with a library that the root does not have. What is excluded or not needed must not take away more than
// itself.
func checkLinks(root fs.FS) error {
	// have are the names of all files and links, in lower case because Windows does not tell cases
	// apart.
	have := map[string]bool{}
	var files []string
	err := fs.WalkDir(root, "usr", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		have[strings.ToLower(path.Base(name))] = true
		if d.Type().IsRegular() {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		return err
	}

	var lacks []string
	for _, name := range files {
		links, err := linksOf(root, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, library := range links {
			if !have[strings.ToLower(library)] {
				lacks = append(lacks, fmt.Sprintf("%s needs %s", name, library))
			}
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("what is left out is needed: %s", strings.Join(lacks, ", "))
	}
	return nil
}

// linksOf are the libraries that a program or library is linked with; none if it is another file.
func linksOf(root fs.FS, name string) ([]string, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	// A file that is shorter than the magic number is no program.
	var magic [4]byte
	if n, _ := io.ReadFull(f, magic[:]); !ok || n < len(magic) {
		return nil, nil
	}

	switch {
	case string(magic[:]) == elf.ELFMAG:
		file, err := elf.NewFile(at)
		if err != nil {
			return nil, err
		}
		return file.ImportedLibraries()
	case string(magic[:2]) == "MZ" && path.Dir(name) == windowsFolder:
		file, err := pe.NewFile(at)
		if err != nil {
			return nil, err
		}
		return windowsLinks(file)
	}
	return nil, nil
}

// windowsLinks leaves out API sets, which Wine finds by a table, and what a library links only when it needs it.
func windowsLinks(file *pe.File) (links []string, err error) {
	symbols, err := file.ImportedSymbols()
	if err != nil {
		return nil, err
	}
	for _, s := range symbols {
		library := s[strings.LastIndexByte(s, ':')+1:]
		if !strings.HasPrefix(library, "api-ms-win-") && !slices.Contains(links, library) {
			links = append(links, library)
		}
	}
	return links, nil
}
