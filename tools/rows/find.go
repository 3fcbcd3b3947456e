package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// find returns the tests below root that name rows, by folder and name. It reads the files of every operating system.
func find(root string) ([]test, error) {
	var out []test
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root &&
			(strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}

		src, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(src), "Row") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		of, err := testsOf(path, src)
		for _, t := range of {
			out = append(out, test{filepath.ToSlash(folder) + " " + t.name, t.rows})
		}
		return err
	})
	slices.SortFunc(out, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return out, err
}

// isTest matches the names of functions that the go command runs as tests.
var isTest = regexp.MustCompile(`^Test($|[^a-z])`)

// testsOf returns the tests of one file that name rows. A test that does nothing but skip itself shows none.
func testsOf(path string, src []byte) ([]test, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []test
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Doc == nil || !isTest.MatchString(f.Name.Name) || onlySkips(f) {
			continue
		}
		if rows := rowsOf(f.Doc.Text()); len(rows) > 0 {
			out = append(out, test{f.Name.Name, rows})
		}
	}
	return out, nil
}

// onlySkips reports whether the first statement of a test skips it.
func onlySkips(f *ast.FuncDecl) bool {
	if f.Body == nil || len(f.Body.List) == 0 {
		return true
	}
	e, ok := f.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && strings.HasPrefix(sel.Sel.Name, "Skip")
}
