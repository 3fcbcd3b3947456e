package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listedPackage is what `go list` says of a package.
type listedPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Export     string // file with the types that it exports
	DepOnly    bool
}

// printCycles prints, for each package, how many pairs of its files use each other in both directions. Such files can only be
// read together. Packages are looked at as Linux has them, without their tests.
func printCycles(out io.Writer, root string) error {
	packages, err := list(root)
	if err != nil {
		return err
	}
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}

	var lines []string
	arrows, pairs := 0, 0
	for _, p := range packages {
		if p.DepOnly || len(p.GoFiles) < 2 {
			continue
		}
		uses, err := fileUses(p, exports)
		if err != nil {
			return fmt.Errorf("looking at %s: %w", p.ImportPath, err)
		}
		both := 0
		for use := range uses {
			if use.from < use.to && uses[fileUse{use.to, use.from}] {
				both++
			}
		}
		arrows, pairs = arrows+len(uses), pairs+both
		if both > 0 {
			lines = append(lines, fmt.Sprintf("%4d of %3d arrows between %2d files  %s", both, len(uses), len(p.GoFiles), p.ImportPath))
		}
	}

	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(b, a) })
	fmt.Fprintf(out, "pairs of files of one package that use each other in both directions: %d (of %d arrows in all)\n", pairs, arrows)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	return nil
}

// list returns the packages below root and all that they import, with the files of their types.
func list(root string) ([]listedPackage, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,DepOnly", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}

	var all []listedPackage
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var p listedPackage
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// fileUse says that one file of a package uses what another declares.
type fileUse struct{ from, to string }

// fileUses returns which files of a package use which others. exports names the file with a package's types by import path.
func fileUses(p listedPackage, exports map[string]string) (map[fileUse]bool, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}

	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := config.Check(p.ImportPath, fset, files, info)
	if err != nil {
		return nil, err
	}

	uses := map[fileUse]bool{}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !shared(object, pkg) {
			continue
		}
		use := fileUse{filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)}
		if use.from != use.to {
			uses[use] = true
		}
	}
	return uses, nil
}

// shared reports whether an object can be used by other files: a declaration of the package, a method or a field.
func shared(object types.Object, pkg *types.Package) bool {
	if object.Parent() == pkg.Scope() {
		return true
	}
	switch x := object.(type) {
	case *types.Func:
		return true // a method: functions are in the package's scope
	case *types.Var:
		return x.IsField()
	}
	return false
}
