package reference

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// TestPrograms: the page of programs that others built has each that test/lab runs as a pod, with its version.
func TestPrograms(t *testing.T) {
	functions := map[string]*ast.FuncDecl{}
	var scripts *ast.CompositeLit
	for _, s := range testSources(t, "test/lab") {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				functions[d.Name.Name] = d
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == "scriptRuns" {
						scripts, _ = v.Values[0].(*ast.CompositeLit)
					}
				}
			}
		}
	}
	whole := functions["TestRealPrograms"]
	if whole == nil || scripts == nil {
		t.Fatal("test/lab has no TestRealPrograms with scriptRuns")
	}

	var b strings.Builder
	b.WriteString("# Programs that others built\n\n" + written("test/lab TestRealPrograms") +
		"What runs in pods of emulated Windows nodes, unchanged, as the npm registry or Go's module proxy serve it, by `make test-programs`. Each\n" +
		"answers through a Service from a Linux node and from the other Windows node, and ends by `kubectl delete` within its grace period.\n\n" +
		"| program | package | what it does there |\n|---|---|---|\n")
	for _, e := range scripts.Elts {
		fmt.Fprintf(&b, "| %s | %s | Writes, renames and deletes files, starts a child process and talks to it, finds a name of the cluster, serves requests.%s |\n",
			firstText(e), strings.Join(packagesOf(e), ", "), newWine(e))
	}
	for _, run := range runsOf(whole) {
		fn := functions[run.function]
		if fn == nil {
			t.Errorf("test/lab has no %s", run.function)
			continue
		}
		does := sentence(says(run.function, synopsis(fn.Doc.Text()))) + newWine(fn)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", run.name, strings.Join(packagesOf(fn), ", "), cell(does))
	}
	page(t, "evidence/programs.md", b.String())
}

// newWine says of a program that the Wine of the root folder is needed.
func newWine(n ast.Node) (text string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && (name.Name == "true" || name.Name == "needsRoot") {
			text = " Needs the root folder's Wine 10."
		}
		return true
	})
	return text
}

// subtest is a call t.Run("name", function).
type subtest struct{ name, function string }

// runsOf returns the parts of a test that are functions by name.
func runsOf(test *ast.FuncDecl) (list []subtest) {
	ast.Inspect(test, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || named(call.Fun) != "Run" || len(call.Args) != 2 {
			return true
		}
		if name, ok := literal(call.Args[0]); ok && named(call.Args[1]) != "" {
			list = append(list, subtest{name, named(call.Args[1])})
		}
		return true
	})
	return list
}

// module matches a module of Go, or a folder of one, with its version.
var module = regexp.MustCompile(`^[a-z][a-z0-9.]*\.[a-z]+/\S+@v\d\S*$`)

// packagesOf returns the packages of npm and modules of Go that a part of the source names.
func packagesOf(n ast.Node) (list []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if named(n.Type) == "npmPackage" && len(n.Elts) == 3 {
				name, _ := literal(n.Elts[0])
				version, _ := literal(n.Elts[1])
				list = append(list, "`"+name+"` "+version)
			}
		case *ast.BasicLit:
			if text, ok := literal(n); ok && module.MatchString(text) {
				name, version, _ := strings.Cut(text, "@")
				list = append(list, "`"+name+"` "+version)
			}
		}
		return true
	})
	return list
}

// firstText returns the first literal below a node.
func firstText(n ast.Node) (text string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && text == "" {
			text, _ = literal(lit)
		}
		return text == ""
	})
	return text
}
