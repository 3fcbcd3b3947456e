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

// printCycles prints, for each package, how many pairs of its files use each other in both directions. Such files can
// only be read together. Packages are looked at as Linux has them, without their tests.
func printCycles(out io.Writer, root string) error {
	packages, exports, err := list(root, "./...")
	if err != nil {
		return err
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
			if uses.isPair(use) {
				both++
			}
		}
		arrows, pairs = arrows+len(uses), pairs+both
		if both > 0 {
			lines = append(lines, fmt.Sprintf("%4d of %3d arrows between %2d files  %s", both, len(uses),
				len(p.GoFiles), p.ImportPath))
		}
	}

	// The counts have four columns, so that the order of texts is that of numbers.
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(b, a) })
	fmt.Fprintf(out, "pairs of files of one package that use each other in both directions: %d (of %d arrows in all)\n",
		pairs, arrows)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
	return nil
}

// printPairs prints the pairs of files of one package that use each other in both directions, and what they use of
// each other.
func printPairs(out io.Writer, root, folder string) error {
	packages, exports, err := list(root, "./"+filepath.ToSlash(folder))
	if err != nil {
		return err
	}

	for _, p := range packages {
		if p.DepOnly {
			continue
		}
		uses, err := fileUses(p, exports)
		if err != nil {
			return fmt.Errorf("looking at %s: %w", p.ImportPath, err)
		}

		var lines []string
		for use := range uses {
			if back := (fileUse{use.to, use.from}); uses.isPair(use) {
				lines = append(lines, fmt.Sprintf("%s\n\t%s uses %s\n\t%s uses %s", use.from+", "+use.to,
					use.from, strings.Join(uses.names(use), " "), back.from, strings.Join(uses.names(back), " ")))
			}
		}
		slices.Sort(lines)
		for _, l := range lines {
			fmt.Fprintln(out, l)
		}
	}
	return nil
}

// list returns the packages of a pattern and all that they import, and the file with each package's types by import
// path.
func list(root, pattern string) (all []listedPackage, exports map[string]string, err error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,DepOnly", pattern)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("listing packages: %w", err)
	}

	exports = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var p listedPackage
		if err := d.Decode(&p); err != nil {
			return nil, nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		all = append(all, p)
		exports[p.ImportPath] = p.Export
	}
	return all, exports, nil
}

// fileUse says that one file of a package uses what another declares.
type fileUse struct{ from, to string }

// usedNames are the names that one file uses of another, with the number of times.
type usedNames map[fileUse]map[string]int

// isPair reports whether two files use each other in both directions. It does so for one of the two directions only,
// so that each pair is counted once.
func (u usedNames) isPair(use fileUse) bool {
	return use.from < use.to && len(u[fileUse{use.to, use.from}]) > 0
}

// names returns what one file uses of another, sorted, each with the number of times.
func (u usedNames) names(use fileUse) (names []string) {
	for name, n := range u[use] {
		names = append(names, fmt.Sprintf("%s(%d)", name, n))
	}
	slices.Sort(names)
	return names
}

// fileUses returns which files of a package use which others. exports names the file with a package's types by import
// path.
func fileUses(p listedPackage, exports map[string]string) (usedNames, error) {
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
	// Other packages are read from their compiled export data, not from their sources.
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := config.Check(p.ImportPath, fset, files, info)
	if err != nil {
		return nil, err
	}

	uses := usedNames{}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !shared(object, pkg) {
			continue
		}
		use := fileUse{filepath.Base(fset.Position(id.Pos()).Filename),
			filepath.Base(fset.Position(object.Pos()).Filename)}
		if use.from == use.to {
			continue
		}
		if uses[use] == nil {
			uses[use] = map[string]int{}
		}
		uses[use][object.Name()]++
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
