package main

import (
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// comments finds doc comments that speak of a parameter which the function does not have.
//
// A comment names a parameter where a sentence begins in lower case and a verb follows, after a semicolon in the same
// way, or where a condition asks for its value. A name is fine if it is one of the function's parameters, results,
// receiver or type parameters, a field of their types, or declared by the package.
func comments(t *tree) []problem {
	var found []problem
	for _, dir := range t.folders {
		declared, fields := declarations(dir)
		for _, f := range dir.files {
			for _, d := range documented(f.syntax) {
				known := maps.Clone(declared)
				for _, typeName := range d.types {
					maps.Copy(known, fields[typeName])
				}
				for _, name := range unknownNames(d, known) {
					found = append(found, problem{f.name, t.line(d.doc.Pos()), kindComment,
						fmt.Sprintf("the comment of %s names %q, which is none of its parameters", d.name, name)})
				}
			}
		}
	}
	return found
}

// documentedFunc is a function, a method or an interface's method with its doc comment.
type documentedFunc struct {
	name  string
	doc   *ast.CommentGroup
	names []string // of parameters, results, receiver and type parameters
	types []string // of receiver and parameters, as far as the package declares them
}

// documented returns the functions and the methods of interfaces that have a doc comment, with the names that it may
// mention.
func documented(f *ast.File) []documentedFunc {
	var all []documentedFunc
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			if x.Doc != nil && !isTest(x) {
				all = append(all, documentedFunc{x.Name.Name, x.Doc,
					append(fieldNames(x.Recv), signatureNames(x.Type)...),
					append(typeNames(x.Recv), typeNames(x.Type.Params)...)})
			}
			return false // the body has no doc comments
		case *ast.InterfaceType:
			for _, m := range x.Methods.List {
				if sig, ok := m.Type.(*ast.FuncType); ok && m.Doc != nil && len(m.Names) > 0 {
					all = append(all, documentedFunc{m.Names[0].Name, m.Doc, signatureNames(sig),
						typeNames(sig.Params)})
				}
			}
		}
		return true
	})

	return all
}

// isTest reports whether a function is called by the test tool: its comment speaks of what is tested.
func isTest(fn *ast.FuncDecl) bool {
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if fn.Recv == nil && strings.HasPrefix(fn.Name.Name, prefix) {
			return true
		}
	}
	return false
}

// typeNames are the names of the types in a list of parameters, without those of other packages.
func typeNames(list *ast.FieldList) []string {
	var names []string
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		names = append(names, receiver(f.Type))
	}
	return names
}

func signatureNames(sig *ast.FuncType) []string {
	return slices.Concat(fieldNames(sig.TypeParams), fieldNames(sig.Params), fieldNames(sig.Results))
}

func fieldNames(list *ast.FieldList) []string {
	var names []string
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		// A parameter of a function type has parameters that a comment may name.
		if sig, ok := f.Type.(*ast.FuncType); ok {
			names = append(names, signatureNames(sig)...)
		}
	}
	return names
}

// declarations returns the names that a package declares or imports, and the names of each of its types' fields.
func declarations(dir *folder) (names map[string]bool, fields map[string]map[string]bool) {
	names = map[string]bool{}
	fields = map[string]map[string]bool{}
	for _, f := range dir.files {
		for _, i := range f.syntax.Imports {
			names[importName(i)] = true
		}
		for _, d := range f.syntax.Decls {
			switch x := d.(type) {
			case *ast.FuncDecl:
				names[x.Name.Name] = true
			case *ast.GenDecl:
				declared(x, names, fields)
			}
		}
	}
	return names, fields
}

// declared adds what one declaration of types, constants or variables declares.
func declared(d *ast.GenDecl, names map[string]bool, fields map[string]map[string]bool) {
	for _, spec := range d.Specs {
		switch x := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range x.Names {
				names[n.Name] = true
			}

		case *ast.TypeSpec:
			names[x.Name.Name] = true
			fields[x.Name.Name] = map[string]bool{}
			ast.Inspect(x.Type, func(n ast.Node) bool {
				if f, ok := n.(*ast.Field); ok {
					for _, name := range f.Names {
						fields[x.Name.Name][name.Name] = true
					}
				}
				return true
			})
		}
	}
}

// importName is the name under which a file uses an import, as far as its path says.
func importName(i *ast.ImportSpec) string {
	if i.Name != nil {
		return i.Name.Name
	}
	p := strings.Trim(i.Path.Value, `"`)
	return p[strings.LastIndex(p, "/")+1:]
}

// Verbs that follow a parameter's name when a comment explains it.
const verbs = `is|are|has|have|says|tells|means|names|gives|holds|may|must|can|need|needs|limits|decides|reports|returns`

var (
	// A sentence that begins in lower case, after the end of another.
	sentence = regexp.MustCompile(`[.!?)"] +([a-z][A-Za-z0-9]*),? (?:` + verbs + `)\b`)
	// A clause after a semicolon.
	clause = regexp.MustCompile(`; ([a-z][A-Za-z0-9]*) (?:is|says|tells|means)\b`)
	// A condition on a value.
	condition = regexp.MustCompile(
		`\b(?:[Ii]f|[Ww]hen|[Ww]here|[Ww]ith|[Uu]nless) ([a-z][A-Za-z0-9]*) (?:is|are) (?:not )?(?:nil|zero|0|empty|true|false|"")\b`)
	// Abbreviations whose full stop ends no sentence.
	abbreviation = regexp.MustCompile(`\b(?:e\.g|i\.e|etc|cf|vs)\.`)
)

// words are no names of parameters though they can stand where those do: parts of speech, and programs and system
// calls, whose names begin in lower case at the start of a sentence as well.
var words = wordSet(`a an the it he she they there this that these those what which who whoever whatever nothing none nobody everything
	everybody all both each some something somebody anything one two three more most others another else here now then so and
	or but not no only also even nil true false err error zero empty either neither
	containerd cri etcd fsync hnsd iptables kubectl kubelet nft rmdir runc wine wineserver`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// unknownNames returns the parameters that a doc comment names and that do not exist, each once.
func unknownNames(d documentedFunc, declared map[string]bool) []string {
	text := prose(d.doc)
	var unknown []string
	for _, pattern := range []*regexp.Regexp{sentence, clause, condition} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			name := m[1]
			if !words[name] && !declared[name] && !slices.Contains(d.names, name) && !slices.Contains(unknown, name) {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown
}

// prose is the text of a comment in one line, without indented lines: those are drawings and examples.
func prose(doc *ast.CommentGroup) string {
	var b strings.Builder
	for line := range strings.Lines(doc.Text()) {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ") {
			continue
		}
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte(' ')
	}
	return abbreviation.ReplaceAllString(b.String(), "")
}
