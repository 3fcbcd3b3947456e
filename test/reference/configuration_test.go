package reference

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// TestConfiguration: the page of configuration has each field of our files, each setting of KubeletConfiguration
// without effect, and each annotation and label of ours.
func TestConfiguration(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" + written("the sources") +
		"The programs of a node have upstream's flags and files: KubeletConfiguration for `porthole kubelet`, KubeProxyConfiguration for\n" +
		"`kube-proxy`, kubeadm's JoinConfiguration for `porthole join --config`. This page has what is Porthole's own, and what differs.\n")

	b.WriteString("\n## NodeConfiguration\n\nAnother document in the file of `porthole join --config`, for what kubeadm's has no place for: " +
		"`apiVersion: porthole.dev/v1alpha1`. Each\nfield stands for a flag of [`porthole join`](commands/join.md). " +
		"[Join your cluster](../use/join.md) has an example.\n\n| field | type | meaning |\n|---|---|---|\n")
	structs(t, &b, "cli/join", "nodeConfiguration", "")

	b.WriteString("\n## The file of the mode bgp\n\nThe file of `--bgp-config`, YAML or JSON. [BGP](../use/bgp.md) has examples.\n\n" +
		"| field | type | meaning |\n|---|---|---|\n")
	structs(t, &b, "routes/bgp", "Config", "")

	b.WriteString("\n## Settings of KubeletConfiguration without effect\n\nThe kubelet reads them, and names each one that is set in its log.\n\n" +
		"| setting | instead |\n|---|---|\n")
	without := ineffective(t)
	for _, name := range slices.Sorted(maps.Keys(without)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(sentence(without[name])))
	}

	b.WriteString("\n## Annotations and labels\n\n| name | meaning |\n|---|---|\n")
	for _, c := range ownNames(t) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, cell(sentence(c.comment)))
	}
	page(t, "reference/configuration.md", b.String())
}

// structs writes the fields of a type of a folder, with those of the types of its fields.
func structs(t *testing.T, b *strings.Builder, folder, name, prefix string) {
	t.Helper()
	types := map[string]*ast.StructType{}
	for _, s := range sources(t, folder) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if of, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = of
				}
			}
			return true
		})
	}
	if types[name] == nil {
		t.Fatalf("%s has no type %s", folder, name)
	}
	fieldsOfType(b, types, types[name], prefix)
}

// fieldsOfType writes a row for each field of a type. Fields whose type is one of types have rows of their own in its
// place.
func fieldsOfType(b *strings.Builder, types map[string]*ast.StructType, of *ast.StructType, prefix string) {
	for _, f := range of.Fields.List {
		if f.Tag == nil {
			continue
		}
		name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		if name == "apiVersion" || name == "kind" {
			continue
		}

		kind, list := f.Type, ""
		if array, ok := kind.(*ast.ArrayType); ok {
			kind, list = array.Elt, "[]"
		}
		below, ok := kind.(*ast.StructType)
		if !ok {
			below = types[named(kind)]
		}
		if below != nil {
			fieldsOfType(b, types, below, prefix+name+list+".")
			continue
		}
		text := says(f.Names[0].Name, comment(f.Doc, f.Comment))
		fmt.Fprintf(b, "| `%s` | %s%s | %s |\n",
			prefix+name, kindOf(kind), strings.Repeat(" list", len(list)/2), cell(sentence(text)))
	}
}

// kindOf returns a word for the type of a field.
func kindOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.MapType:
		return "names and values"
	}
	switch name := named(e); name {
	case "int", "ASNumber":
		return "number"
	case "bool":
		return "true or false"
	case "Duration":
		return "duration"
	}
	return "text"
}

// ineffective returns the map of kubelet/config by the names of the settings in files.
func ineffective(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	config := reflect.TypeOf(kubeletconfig.KubeletConfiguration{})

	for _, s := range sources(t, "kubelet/config") {
		ast.Inspect(s.file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || v.Names[0].Name != "ineffective" {
				return true
			}
			for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
				pair := e.(*ast.KeyValueExpr)
				name, _ := literal(pair.Key)
				text, _ := literal(pair.Value)
				field, ok := config.FieldByName(name)
				if !ok {
					t.Fatalf("KubeletConfiguration has no field %s", name)
				}
				json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				all[json] = text
			}
			return false
		})
	}

	if len(all) == 0 {
		t.Fatal("kubelet/config names no setting without effect")
	}
	return all
}

// ownName matches the name of an annotation or label of ours.
var ownName = regexp.MustCompile(`^porthole\.dev/[^/]+$`)

// ownNames returns the constants that are names of annotations and labels of ours, sorted.
func ownNames(t *testing.T) (list []constant) {
	t.Helper()
	for _, s := range sources(t, "kubelet", "node", "proxy", "routes", "ovn", "join", "internal", "cluster") {
		ast.Inspect(s.file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				return true
			}
			for _, spec := range decl.Specs {
				v := spec.(*ast.ValueSpec)
				for i := range v.Values {
					text, ok := literal(v.Values[i])
					ours := ok && ownName.MatchString(text)
					if ours && text != "porthole.dev/porthole" && !strings.HasPrefix(text, "porthole.dev/v1") {
						about := comment(v.Doc, v.Comment)
						if about == "" && len(decl.Specs) == 1 {
							about = comment(decl.Doc)
						}
						list = append(list, constant{text, says(v.Names[i].Name, about)})
					}
				}
			}
			return true
		})
	}

	slices.SortFunc(list, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return slices.CompactFunc(list, func(a, b constant) bool { return a.value == b.value })
}
