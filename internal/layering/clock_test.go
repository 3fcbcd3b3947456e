package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// clockFunctions are the functions of package time that read the clock or wait.
var clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// TestPureCodeReadsNoClock checks the source of every pure folder, of the packages of this module that it uses, and of
// every plan.go: the time is an argument there, so that a test can choose it and a recorded input gives the same
// result again.
func TestPureCodeReadsNoClock(t *testing.T) {
	all := list(t, "linux")
	files := map[string]bool{}
	for _, l := range all {
		for _, f := range l.GoFiles {
			if f == "plan.go" {
				files[filepath.Join(l.Dir, f)] = true
			}
		}
		if !matchesAny(strings.TrimPrefix(l.ImportPath, Module+"/"), pure) {
			continue
		}
		for _, used := range all {
			if used.ImportPath != l.ImportPath && !slices.Contains(l.Deps, used.ImportPath) {
				continue
			}
			for _, f := range used.GoFiles {
				files[filepath.Join(used.Dir, f)] = true
			}
		}
	}
	if len(files) < 20 {
		t.Fatalf("only %d files of pure code found", len(files))
	}

	for file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range readsClock(parsed) {
			t.Errorf("%s uses time.%s: pure code takes the time as an argument", file, f)
		}
	}
}

// readsClock returns the functions of package time that a file uses and that read the clock or wait.
func readsClock(f *ast.File) []string {
	name := ""
	for _, spec := range f.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err != nil || path != "time" {
			continue
		}
		name = "time"
		if spec.Name != nil {
			name = spec.Name.Name
		}
	}

	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || name == "" {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == name && slices.Contains(clockFunctions, s.Sel.Name) {
			found = append(found, s.Sel.Name)
		}
		return true
	})
	return found
}

// TestReadsClock shows that the check above finds what it is for, and nothing else.
func TestReadsClock(t *testing.T) {
	for text, want := range map[string]int{
		"import \"time\"\nvar x = time.Now()":            1,
		"import clock \"time\"\nvar now = clock.Now":     1,
		"import \"time\"\nvar x = time.After(time.Hour)": 1,
		"import \"time\"\nvar x = time.Hour":             0,
		"type t struct{}\nvar time t\nvar x = time.Now":  0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := readsClock(f); len(got) != want {
			t.Errorf("%s: found %v, want %d", text, got, want)
		}
	}
}
