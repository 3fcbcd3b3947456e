package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is one parsed Go file.
type file struct {
	name   string // path below the root, with slashes
	syntax *ast.File
	lines  [][]byte
	test   bool // its name ends in _test.go
}

// folder is the package of one folder, for all operating systems together.
type folder struct {
	name  string // path below the root; "." is the root itself
	files []*file
}

// tree is all Go code below a root.
type tree struct {
	root    string
	fset    *token.FileSet
	folders []*folder // sorted by name
}

// load parses every Go file below root, except in folders that Go itself leaves out.
func load(root string) (*tree, error) {
	t := &tree{root: root, fset: token.NewFileSet()}
	byName := map[string]*folder{}

	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if full != root && skipped(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(d.Name(), ".go") {
			return nil
		}

		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		f, err := t.parse(full, filepath.ToSlash(name))
		if err != nil {
			return err
		}
		dir := path.Dir(f.name)
		if byName[dir] == nil {
			byName[dir] = &folder{name: dir}
			t.folders = append(t.folders, byName[dir])
		}
		byName[dir].files = append(byName[dir].files, f)
		return nil
	})

	slices.SortFunc(t.folders, func(a, b *folder) int { return strings.Compare(a.name, b.name) })
	return t, err
}

// skipped reports whether a folder holds no code of this module: build results, test data, hidden folders.
func skipped(name string) bool {
	return name == "bin" || name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") ||
		strings.HasPrefix(name, "_")
}

// parse names the file from the root; positions in problems are named so too.
func (t *tree) parse(full, name string) (*file, error) {
	data, err := os.ReadFile(full)
	if err != nil {
		return nil, err
	}
	syntax, err := parser.ParseFile(t.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	return &file{name: name, syntax: syntax, lines: bytes.Split(data, []byte("\n")),
		test: strings.HasSuffix(name, "_test.go")}, nil
}

// line returns the line number of a position.
func (t *tree) line(p token.Pos) int { return t.fset.Position(p).Line }

// functions calls f for each function with a body.
func (t *tree) functions(f func(*folder, *file, *ast.FuncDecl)) {
	for _, dir := range t.folders {
		for _, one := range dir.files {
			for _, d := range one.syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					f(dir, one, fn)
				}
			}
		}
	}
}

// types calls f for each type that is declared at package level.
func (t *tree) types(f func(*folder, *file, *ast.TypeSpec, *ast.GenDecl)) {
	for _, dir := range t.folders {
		for _, one := range dir.files {
			for _, d := range one.syntax.Decls {
				list, ok := d.(*ast.GenDecl)
				if !ok || list.Tok != token.TYPE {
					continue
				}
				for _, spec := range list.Specs {
					f(dir, one, spec.(*ast.TypeSpec), list)
				}
			}
		}
	}
}
