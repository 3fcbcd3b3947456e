package reference

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programs are the programs that write events, with the folders in which they do.
var programs = []struct {
	title, about string
	folders      []string
}{
	{"kubelet", "About pods and nodes. Reasons that upstream's kubelet has too mean the same there.", []string{"kubelet", "node/kubelet"}},
	{"kube-proxy on Windows nodes", "About services.", []string{"proxy", "node/kubeproxy"}},
	{"routes", "About nodes.", []string{"routes", "node/routes", "internal/networkapi"}},
	{"OVN's controller", "About nodes and pods, in the mode ovn.", []string{"ovn"}},
}

// event is one that a program can write.
type event struct{ reason, kind, text string }

// TestEvents: the page of events has each reason that the sources name: as an argument of a function that writes an
// event, in a value of a type of events or problems, and as a constant that is called a reason.
func TestEvents(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(repository, "docs/use/troubleshoot.md"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Events\n\n" + written("the sources") +
		"Reasons of the events that the programs of a node write, with their text as the source has it (`%s` and the like stand for names and\n" +
		"errors); where it is empty, the text is that of the error. `kubectl describe` and `kubectl events` show them; `porthole why` says what\n" +
		"a pod, service or node waits for. [Troubleshoot](../use/troubleshoot.md) has the cure of those that upstream does not have.\n")
	for _, p := range programs {
		files := sources(t, p.folders...)
		found := map[string]event{}
		known := constants(files)
		for _, s := range files {
			if strings.HasPrefix(s.name, "kubelet/meter/") { // reasons that its metrics have as labels
				continue
			}
			eventsOf(s, known, found)
		}
		for _, name := range slices.Sorted(maps.Keys(known)) {
			c := known[name]
			if strings.HasPrefix(name, "Reason") || strings.HasPrefix(name, "reason") {
				note(found, event{reason: c.value, text: says(name, c.comment)})
			}
		}

		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| reason | type | text |\n|---|---|---|\n", p.title, p.about)
		for _, reason := range slices.Sorted(maps.Keys(found)) {
			e := found[reason]
			if p.title != "kubelet" && e.kind != "Normal" && !strings.Contains(string(guide), "`"+reason+"`") {
				t.Errorf("docs/use/troubleshoot.md does not say what to do about %s", reason)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", reason, e.kind, cell(e.text))
		}
	}
	page(t, "reference/events.md", b.String())
}

// writers are the functions that write an event, or make a problem or refusal of which one is made, by name. Their
// arguments are a type, a reason and a text; some have the type or the object elsewhere.
var writers = []string{"event", "Event", "NodeEvent", "PodEvent", "Warn", "tell", "problem", "problemOf", "predicate"}

// eventsOf adds the events of one file.
func eventsOf(s source, known map[string]constant, found map[string]event) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if slices.Contains(writers, named(n.Fun)) {
				note(found, eventOf(n.Args, known))
			}
		case *ast.CompositeLit:
			if isEvents(n.Type) {
				for _, e := range fieldsOf(n) {
					note(found, eventOf(e, known))
				}
			}
		case *ast.AssignStmt: // reason, message = "DNSConfigForming", text
			kept := n.Tok == token.ASSIGN || strings.HasPrefix(s.name, "proxy/")
			if kept && named(n.Lhs[0]) == "reason" && len(n.Lhs) == len(n.Rhs) {
				if _, field := n.Lhs[0].(*ast.SelectorExpr); !field {
					note(found, eventOf(n.Rhs, known))
				}
			}

		case *ast.ValueSpec:
			if len(n.Names) == 1 && strings.HasSuffix(n.Names[0].Name, "Events") { // reasons by condition
				ast.Inspect(n, func(n ast.Node) bool {
					if e, ok := n.(ast.Expr); ok {
						note(found, eventOf([]ast.Expr{e}, known))
					}
					return true
				})
			}
		}
		return true
	})
}

// isEvents reports whether values of a type are events, or problems of which events are made.
func isEvents(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.ArrayType:
		return isEvents(of.Elt)
	case *ast.StructType: // of a list of reasons and texts
		for _, f := range of.Fields.List {
			for _, name := range f.Names {
				if name.Name == "reason" {
					return true
				}
			}
		}
		return false
	}
	name := named(of)
	return strings.HasSuffix(name, "Event") || name == "Problem" || name == "Refusal"
}

// fieldsOf returns the values of a literal, or of each literal in a list.
func fieldsOf(lit *ast.CompositeLit) (all [][]ast.Expr) {
	if _, list := lit.Type.(*ast.ArrayType); list {
		for _, e := range lit.Elts {
			if below, ok := e.(*ast.CompositeLit); ok {
				all = append(all, fieldsOf(below)...)
			}
		}
		return all
	}
	var values []ast.Expr
	for _, e := range lit.Elts {
		pair, keyed := e.(*ast.KeyValueExpr)
		if !keyed {
			values = append(values, e)
			continue
		}
		if !slices.Contains([]string{"Key", "Kind", "Container", "Service", "Node"}, named(pair.Key)) {
			values = append(values, pair.Value)
		}
	}
	return [][]ast.Expr{values}
}

// eventOf returns the event that expressions make: the first that is a reason, the type, and the first text.
func eventOf(args []ast.Expr, known map[string]constant) (e event) {
	for _, arg := range args {
		text, ok := literal(arg)
		if !ok {
			text = known[named(arg)].value
		}
		switch name := named(arg); {
		case name == "EventTypeNormal", name == "EventTypeWarning":
			e.kind = strings.TrimPrefix(name, "EventType")
		case e.reason == "" && isReason.MatchString(text) && text != "Pod" && text != "Node":
			e.reason = text
		case e.text == "":
			e.text = message(arg)
		}
	}
	return e
}

// note adds an event; of several with one reason the texts stand together.
func note(found map[string]event, e event) {
	if e.reason == "" {
		return
	}
	old, there := found[e.reason]
	e.kind = cmp.Or(old.kind, e.kind)
	switch {
	case there && old.text != "" && e.text != "" && !strings.Contains(old.text, e.text):
		e.text = old.text + "; " + e.text
	case old.text != "":
		e.text = old.text
	}
	found[e.reason] = e
}
