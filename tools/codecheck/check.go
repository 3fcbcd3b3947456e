package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"io"
	"maps"
	"slices"
	"strings"
)

// Limits. A value above one is a problem.
const (
	linesWithoutBlank = 25
	lineColumns       = 120
	typeMethods       = 30
	typeFields        = 25
	interfaceMethods  = 7
)

// mirrors are the types that may be wider than typeFields, because they mirror a format that others define.
var mirrors = map[string]string{}

// tooWide are types that had more than typeMethods methods when facets and functions began to count, and how many they
// had: they may shrink. One that has shrunk enough leaves the list.
var tooWide = map[string]int{
	"hns/hcn.Client":   37,
	"hns/hnstest.Fake": 42,
}

// problem is one thing to change.
type problem struct {
	file string
	line int
	kind string // one of the kinds below
	text string
}

// Kinds of problems.
const (
	kindParagraph = "function without a blank line"
	kindColumns   = "line that is too wide"
	kindMethods   = "type with too many methods"
	kindFields    = "type with too many fields"
	kindInterface = "interface with too many methods"
	kindComment   = "comment that names an unknown parameter"
	kindMirror    = "exception without a reason to be"
	kindDocument  = "document that names what is not there"
)

func (p problem) String() string { return fmt.Sprintf("%s:%d: %s", p.file, p.line, p.text) }

// check returns every problem of the tree, by file and line.
func check(t *tree) []problem {
	found := slices.Concat(paragraphs(t), columns(t), widths(t), comments(t))
	slices.SortStableFunc(found, func(a, b problem) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return found
}

// printCounts prints the number of problems by root folder and kind.
func printCounts(out io.Writer, found []problem) {
	counts := map[string]int{}
	for _, p := range found {
		top, _, _ := strings.Cut(p.file, "/")
		counts[top+"\t"+p.kind]++
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		top, kind, _ := strings.Cut(key, "\t")
		fmt.Fprintf(out, "%5d  %-10s %s\n", counts[key], top, kind)
	}
	fmt.Fprintf(out, "%5d  in all\n", len(found))
}

// paragraphs finds the long functions in which no blank line says where one thought ends.
func paragraphs(t *tree) []problem {
	var found []problem
	t.functions(func(_ *folder, f *file, fn *ast.FuncDecl) {
		if n := t.length(fn); n > linesWithoutBlank && !t.hasBlankLine(f, fn) {
			found = append(found, problem{f.name, t.line(fn.Pos()), kindParagraph,
				fmt.Sprintf("function %s has %d lines and no blank line: separate its thoughts", fn.Name.Name, n)})
		}
	})
	return found
}

// length is the number of lines from "func" to the closing brace. A composite literal counts as one line: a table of
// data has no thoughts to separate.
func (t *tree) length(fn *ast.FuncDecl) int {
	n := t.line(fn.End()) - t.line(fn.Pos()) + 1
	ast.Inspect(fn.Body, func(x ast.Node) bool {
		lit, ok := x.(*ast.CompositeLit)
		if ok {
			n -= t.line(lit.End()) - t.line(lit.Pos())
		}
		return !ok
	})
	return n
}

// hasBlankLine reports whether the body has a blank line. One inside a text that spans lines does not count.
func (t *tree) hasBlankLine(f *file, fn *ast.FuncDecl) bool {
	inText := map[int]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok {
			for l := t.line(lit.Pos()); l < t.line(lit.End()); l++ {
				inText[l+1] = true
			}
		}
		return true
	})
	for l := t.line(fn.Body.Pos()) + 1; l < t.line(fn.Body.End()); l++ {
		if len(bytes.TrimSpace(f.lines[l-1])) == 0 && !inText[l] {
			return true
		}
	}
	return false
}

// width is how large a type is.
type width struct {
	file        *file
	line        int
	name        string // folder and type
	fields      int
	methods     int
	ofInterface int // methods that an interface asks for, those of embedded interfaces of the same package included
}

// widths finds types and interfaces that do too much.
func widths(t *tree) []problem {
	var found []problem
	used, seen := map[string]bool{}, map[string]bool{}
	for _, w := range t.widths() {
		add := func(kind, format string, args ...any) {
			found = append(found, problem{w.file.name, w.line, kind, fmt.Sprintf(format, args...)})
		}
		if w.ofInterface > interfaceMethods {
			add(kindInterface, "interface %s has %d methods, at most %d: split it by what its users need", w.name,
				w.ofInterface, interfaceMethods)
		}
		seen[w.name] = true
		if most := max(typeMethods, tooWide[w.name]); w.methods > most {
			add(kindMethods, "type %s has %d methods with its facets and functions, at most %d: give parts of it a "+
				"type of their own", w.name, w.methods, most)
		} else if w.methods <= typeMethods && tooWide[w.name] > 0 {
			add(kindMirror, "type %s has %d methods: remove it from tooWide", w.name, w.methods)
		}
		if w.fields > typeFields {
			used[w.name] = true
			if mirrors[w.name] == "" {
				add(kindFields, "type %s has %d fields, at most %d: give parts of it a type of their own", w.name,
					w.fields, typeFields)
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(tooWide)) {
		if !seen[name] && t.has(name) {
			found = append(found, problem{"tools/codecheck/check.go", 1, kindMirror,
				"there is no type " + name + ": remove it from tooWide"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mirrors)) {
		if !used[name] && t.has(name) {
			found = append(found, problem{"tools/codecheck/check.go", 1, kindMirror,
				name + " is an exception and needs none: remove it from mirrors"})
		}
	}
	return found
}

// has reports whether the tree has the folder of a type, so that the exceptions are not judged by a part of the tree.
func (t *tree) has(name string) bool {
	return slices.ContainsFunc(t.folders, func(f *folder) bool { return strings.HasPrefix(name, f.name+".") })
}

// widths measures every type of the tree. Methods of all operating systems count, each name once.
func (t *tree) widths() []width {
	methods := t.methods()
	interfaces := map[string]*ast.InterfaceType{}
	t.types(func(dir *folder, _ *file, s *ast.TypeSpec, _ *ast.GenDecl) {
		if i, ok := s.Type.(*ast.InterfaceType); ok {
			interfaces[dir.name+"."+s.Name.Name] = i
		}
	})

	var all []width
	t.types(func(dir *folder, f *file, s *ast.TypeSpec, _ *ast.GenDecl) {
		w := width{file: f, line: t.line(s.Pos()), name: dir.name + "." + s.Name.Name}
		w.methods = len(methods[w.name])
		switch x := s.Type.(type) {
		case *ast.StructType:
			w.fields = countNames(x.Fields)
		case *ast.InterfaceType:
			w.ofInterface = len(interfaceNames(dir.name, x, interfaces, map[string]bool{}))
		}
		all = append(all, w)
	})
	return all
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func countNames(list *ast.FieldList) int {
	n := 0
	for _, f := range list.List {
		n += max(len(f.Names), 1) // an embedded type has no name
	}
	return n
}

// interfaceNames collects the methods of an interface into names. Interfaces of other packages that it embeds count as
// one.
func interfaceNames(dir string, i *ast.InterfaceType, all map[string]*ast.InterfaceType,
	names map[string]bool) map[string]bool {
	for _, m := range i.Methods.List {
		for _, n := range m.Names {
			names[n.Name] = true
		}
		if len(m.Names) > 0 {
			continue
		}

		switch x := m.Type.(type) {
		case *ast.Ident:
			if embedded := all[dir+"."+x.Name]; embedded != nil {
				interfaceNames(dir, embedded, all, names)
			}
		case *ast.SelectorExpr:
			names[x.Sel.Name] = true
		}
	}
	return names
}
