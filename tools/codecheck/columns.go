package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"unicode/utf8"
)

// tabColumns is the width of a tab, as .editorconfig's readers show it.
const tabColumns = 4

// longText is the number of columns from which a string literal may stand alone on a line that is too wide: texts are
// searched for, and are not cut.
const longText = 60

// columns finds lines that are too wide to read beside another file. Raw strings hold the formats of others, comments
// that are indented hold drawings, and a long text stays in one piece.
func columns(t *tree) []problem {
	var found []problem
	for _, dir := range t.folders {
		for _, f := range dir.files {
			var wide []int
			for i, line := range f.lines {
				if columnsOf(line) > lineColumns {
					wide = append(wide, i+1)
				}
			}
			if len(wide) == 0 {
				continue
			}

			kept := t.indivisible(f)
			for _, n := range wide {
				if !kept[n] {
					found = append(found, problem{f.name, n, kindColumns,
						fmt.Sprintf("a line of %d columns, at most %d", columnsOf(f.lines[n-1]), lineColumns)})
				}
			}
		}
	}
	return found
}

// columnsOf counts a tab as a full one, wherever it is in the line.
func columnsOf(line []byte) int {
	return utf8.RuneCount(line) + (tabColumns-1)*bytes.Count(line, []byte("\t"))
}

// indivisible returns the lines of a file that may be wide.
func (t *tree) indivisible(f *file) map[int]bool {
	lines := map[int]bool{}
	mark := func(n ast.Node) {
		for l := t.line(n.Pos()); l <= t.line(n.End()); l++ {
			lines[l] = true
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if ok && lit.Kind == token.STRING && (lit.Value[0] == '`' || len(lit.Value) >= longText) {
			mark(lit)
		}
		return true
	})
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "/*") || strings.HasPrefix(c.Text, "//\t") ||
				strings.HasPrefix(c.Text, "//  ") {
				mark(c)
			}
		}
	}
	return lines
}
