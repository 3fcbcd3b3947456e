package main

import (
	"go/ast"
	"go/token"
)

// methods returns the names of what works on each type, by "folder.type": its methods, those of its facets, and the
// functions that are methods but for their form. Tests do not count.
//
// A facet is a type of the same package whose only field is an embedded pointer to the structure: it has no state of
// its own, and its methods read and write the structure's fields. A type with further fields is one that is made of
// others. A function counts to the type of its first parameter, a context aside, if that is a pointer to a structure
// of the same package that has methods, and if it changes the structure: a plan that only reads facts is no method of
// them.
func (t *tree) methods() map[string]map[string]bool {
	structs, facetOf := t.structs()
	methods := map[string]map[string]bool{}
	add := func(key, name string) {
		if methods[key] == nil {
			methods[key] = map[string]bool{}
		}
		methods[key][name] = true
	}
	t.functions(func(dir *folder, f *file, fn *ast.FuncDecl) {
		if fn.Recv == nil || len(fn.Recv.List) == 0 || f.test {
			return
		}
		key := dir.name + "." + receiver(fn.Recv.List[0].Type)
		add(key, fn.Name.Name)
		if whole := facetOf[key]; whole != "" {
			add(whole, receiver(fn.Recv.List[0].Type)+"."+fn.Name.Name)
		}
	})

	// Functions come second, because they count only for types that have methods.
	t.functions(func(dir *folder, f *file, fn *ast.FuncDecl) {
		if fn.Recv != nil || f.test {
			return
		}
		name, of := firstPointer(fn.Type.Params)
		if key := dir.name + "." + of; structs[key] && len(methods[key]) > 0 && changes(fn, name) {
			add(key, "func "+fn.Name.Name)
		}
	})
	return methods
}

// structs returns the structures of the tree, and the structure that each facet is one of.
func (t *tree) structs() (all map[string]bool, facetOf map[string]string) {
	all, facetOf = map[string]bool{}, map[string]string{}
	t.types(func(dir *folder, f *file, s *ast.TypeSpec, _ *ast.GenDecl) {
		x, ok := s.Type.(*ast.StructType)
		if !ok || f.test {
			return
		}
		all[dir.name+"."+s.Name.Name] = true
		if countNames(x.Fields) != 1 || len(x.Fields.List[0].Names) > 0 {
			return
		}
		if star, ok := x.Fields.List[0].Type.(*ast.StarExpr); ok {
			if name, ok := star.X.(*ast.Ident); ok {
				facetOf[dir.name+"."+s.Name.Name] = dir.name + "." + name.Name
			}
		}
	})
	return all, facetOf
}

// firstPointer is the name of the first parameter, a context aside, and that of the type that it points to; "" if it is
// no pointer to a type of this package.
func firstPointer(params *ast.FieldList) (name, of string) {
	for _, p := range params.List {
		if x, ok := p.Type.(*ast.SelectorExpr); ok && x.Sel.Name == "Context" && len(p.Names) <= 1 {
			continue
		}
		if star, ok := p.Type.(*ast.StarExpr); ok && len(p.Names) > 0 {
			return p.Names[0].Name, receiver(star)
		}
		return "", ""
	}
	return "", ""
}

// changes reports whether a function does more to a parameter than read its fields and call its methods: it assigns to
// a field, deletes from one, or takes the address of one.
func changes(fn *ast.FuncDecl, param string) (found bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for _, to := range x.Lhs {
				found = found || isFieldOf(to, param)
			}
		case *ast.IncDecStmt:
			found = found || isFieldOf(x.X, param)
		case *ast.UnaryExpr:
			found = found || x.Op == token.AND && isFieldOf(x.X, param)
		case *ast.CallExpr:
			id, ok := x.Fun.(*ast.Ident)
			found = found || ok && id.Name == "delete" && isFieldOf(x.Args[0], param)
		}

		return !found
	})
	return found
}

// isFieldOf reports whether an expression is a field of a variable, or lies below one.
func isFieldOf(e ast.Expr, variable string) bool {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok {
				return id.Name == variable
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return false
		}
	}
}
