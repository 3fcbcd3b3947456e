package reference

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// conditionNames are the names of conditions by that of their constant in the API's package, where both differ.
var conditionNames = map[string]string{
	"NodeReady": "Ready", "NodeMemoryPressure": "MemoryPressure", "NodeDiskPressure": "DiskPressure",
	"NodePIDPressure": "PIDPressure", "NodeNetworkUnavailable": "NetworkUnavailable",
	"PodReady": "Ready", "PodInitialized": "Initialized", "PodReasonInfeasible": "Infeasible",
	"PodReasonDeferred": "Deferred", "PodReasonTerminationByKubelet": "TerminationByKubelet",
}

// TestConditions: the page of conditions has each type of condition of nodes and pods that the sources set, with its
// reasons.
func TestConditions(t *testing.T) {
	kinds := map[string]map[string]map[string]string{"NodeCondition": {}, "PodCondition": {}}
	for _, s := range sources(t, "kubelet", "node/kubelet", "node/routes") {
		for _, d := range s.file.Decls {
			conditionsOf(d, kinds)
		}
	}

	var b strings.Builder
	b.WriteString("# Conditions\n\n" + written("the sources") +
		"Conditions of nodes and pods that the programs of a node set, each with its reasons. Those that upstream's kubelet sets too mean the\n" +
		"same there. `kubectl describe` shows them.\n")
	for _, kind := range []struct{ title, name string }{{"Nodes", "NodeCondition"}, {"Pods", "PodCondition"}} {
		fmt.Fprintf(&b, "\n## %s\n\n| condition | reasons |\n|---|---|\n", kind.title)
		for _, name := range slices.Sorted(maps.Keys(kinds[kind.name])) {
			var reasons []string
			for _, reason := range slices.Sorted(maps.Keys(kinds[kind.name][name])) {
				text := "`" + reason + "`"
				if says := kinds[kind.name][name][reason]; says != "" {
					text += ": " + cell(says)
				}
				reasons = append(reasons, text)
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.Join(reasons, "; "))
		}
	}
	page(t, "reference/conditions.md", b.String())
}

// conditionsOf adds the conditions that are written in one declaration. A function that makes one sets the reasons
// that it names.
func conditionsOf(d ast.Decl, kinds map[string]map[string]map[string]string) {
	var made []map[string]string
	ast.Inspect(d, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if list, ok := lit.Type.(*ast.ArrayType); ok { // its elements leave their type out
			for _, e := range lit.Elts {
				if below, ok := e.(*ast.CompositeLit); ok && below.Type == nil {
					below.Type = list.Elt
				}
			}
		}
		if kinds[named(lit.Type)] == nil {
			return true
		}
		name, reason, says := "", "", ""
		for _, e := range lit.Elts {
			pair, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			switch named(pair.Key) {
			case "Type":
				name = conditionName(pair.Value)
			case "Reason":
				reason = conditionName(pair.Value)
			case "Message":
				says = message(pair.Value)
			}
		}
		if name == "" {
			return true
		}
		all := kinds[named(lit.Type)]
		if all[name] == nil {
			all[name] = map[string]string{}
		}
		if reason != "" {
			all[name][reason] = says
		}
		made = append(made, all[name])
		return true
	})

	var others = map[string]map[string]string{} // by variable: those that are copies of a condition, of another type
	ast.Inspect(d, func(n ast.Node) bool {
		set, ok := n.(*ast.AssignStmt)
		if !ok || len(set.Lhs) != len(set.Rhs) {
			return true
		}
		for i, to := range set.Lhs {
			field, ok := to.(*ast.SelectorExpr)
			name := conditionName(set.Rhs[i])
			if !ok || name == "" {
				continue
			}
			variable := named(field.X)
			switch {
			case field.Sel.Name == "Type" && set.Rhs[i] != nil && strings.HasPrefix(named(set.Rhs[i]), "Pod"):
				others[variable] = map[string]string{}
				kinds["PodCondition"][name] = others[variable]
			case field.Sel.Name == "Reason" && others[variable] != nil:
				others[variable][name] = ""
			case field.Sel.Name == "Reason" && len(made) == 1:
				made[0][name] = message(set.Rhs[len(set.Rhs)-1])
			}
		}
		return true
	})
}

// conditionName returns the type or reason that an expression is: a text, or a constant of the API's package.
func conditionName(e ast.Expr) string {
	if text, ok := literal(e); ok {
		return text
	}
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(named(selector.X), "v1") {
		return ""
	}
	if name, ok := conditionNames[selector.Sel.Name]; ok {
		return name
	}
	return selector.Sel.Name
}
