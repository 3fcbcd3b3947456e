package reference

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of a product.
type source struct {
	name string // below the repository's root
	file *ast.File
}

// sources parses the Go files below folders, of all systems and without tests.
func sources(t *testing.T, folders ...string) []source { return parsed(t, false, folders) }

// testSources parses the tests below a folder.
func testSources(t *testing.T, folder string) []source { return parsed(t, true, []string{folder}) }

func parsed(t *testing.T, tests bool, folders []string) (list []source) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, d fs.DirEntry, err error) error {
			isTest := strings.HasSuffix(path, "_test.go")
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || isTest != tests {
				return err
			}
			if strings.Contains(filepath.ToSlash(path), "/runtimetest/") { // a fake of the runtime
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			name, _ := filepath.Rel(repository, path)
			list = append(list, source{filepath.ToSlash(name), f})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// constants returns the constants of strings of files by name, with what their comments say.
func constants(files []source) map[string]constant {
	all := map[string]constant{}
	for _, s := range files {
		for _, d := range s.file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, spec := range decl.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						if text, ok := literal(v.Values[i]); ok {
							all[name.Name] = constant{text, comment(v.Doc, v.Comment)}
						}
					}
				}
			}
		}
	}
	return all
}

type constant struct{ value, comment string }

// comment returns the text of a comment above or behind something.
func comment(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := strings.TrimSpace(g.Text()); text != "" {
			return strings.Join(strings.Fields(text), " ")
		}
	}
	return ""
}

// literal returns the value of a literal string.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// isReason matches the reasons of events and conditions.
var isReason = regexp.MustCompile(`^[A-Z]+[a-z][A-Za-z]*$`)

// named returns the last part of a name such as k.o.API.NodeEvent.
func named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// message returns the first text below an expression that has several words: what an event or condition says.
func message(e ast.Expr) (text string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && text == "" {
			if s, ok := literal(lit); ok && strings.Contains(strings.TrimSpace(s), " ") {
				text = s
			}
		}
		return text == ""
	})
	return text
}

// says returns what a comment says of a name, without the name before it: "Port is where it listens" is "where it
// listens".
func says(name, comment string) string {
	text, ok := strings.CutPrefix(comment, name)
	if !ok {
		return comment
	}
	text = strings.TrimLeft(text, ": ")
	for _, verb := range []string{"is an ", "is a ", "is the ", "is ", "are those ", "are "} {
		if rest, ok := strings.CutPrefix(text, verb); ok {
			return rest
		}
	}
	return text
}
