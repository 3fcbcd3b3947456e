package pod

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestStateIsClosed: only this package can change a State, and the kubelet calls Take in one place, so that every
// change is a fact that can be recorded. What a State hands out is not written to.
func TestStateIsClosed(t *testing.T) {
	state := reflect.TypeFor[State]()
	for i := range state.NumField() {
		if f := state.Field(i); f.IsExported() {
			t.Errorf("State.%s is exported", f.Name)
		}
	}

	for i := range reflect.TypeFor[*State]().NumMethod() {
		m := reflect.TypeFor[*State]().Method(i)
		if m.Name != "Take" && m.Type.NumOut() == 0 {
			t.Errorf("State.%s returns nothing: does it change the state?", m.Name)
		}
	}

	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("the kubelet's files: %v, %v", files, err)
	}

	takes := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}

		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Take" {
					takes++
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if handedOut(left) {
						t.Errorf("%s: writes to what a State hands out", fset.Position(left.Pos()))
					}
				}
			case *ast.IncDecStmt:
				if handedOut(n.X) {
					t.Errorf("%s: writes to what a State hands out", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}

	if takes != 1 {
		t.Errorf("the kubelet calls Take in %d places, want 1 (actor.take)", takes)
	}
}

// handedOut reports whether an expression is part of the result of a method of State.
func handedOut(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.CallExpr:
			sel, ok := x.Fun.(*ast.SelectorExpr)
			if !ok {
				return false
			}
			_, ok = reflect.TypeFor[*State]().MethodByName(sel.Sel.Name)
			return ok
		default:
			return false
		}
	}
}
