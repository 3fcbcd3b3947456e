package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1beta1 "k8s.io/kubelet/config/v1beta1"
)

// TestEverySettingCounts: a setting that somebody can give is used somewhere, or there is a warning that it has no
// effect.
func TestEverySettingCounts(t *testing.T) {
	used := selected(t, "../../kubelet", "../../node/kubelet")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1beta1.KubeletConfiguration]()) {
		_, warned := ineffective[field.Name]
		switch {
		case field.Name == "TypeMeta" || len(field.Index) > 1 ||
			field.Name == "MergeDefaultEvictionSettings": // the last decides on defaults
		case !used[field.Name] && !warned:
			t.Errorf("%s is not used, and nobody is told", field.Name)
		case used[field.Name] && warned:
			t.Errorf("%s is used, and is said to have no effect", field.Name)
		}
	}
	for name := range ineffective {
		if _, is := reflect.TypeFor[v1beta1.KubeletConfiguration]().FieldByName(name); !is {
			t.Errorf("there is no setting %s", name)
		}
	}
}

// selected returns the names that the code in these folders selects, x in a.x. Files that only set defaults and check
// values do not count.
func selected(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if filepath.Base(filepath.Dir(path)) == "config" &&
				slices.Contains([]string{"check.go", "defaults.go", "flag_table.go", "flags.go", "ineffective.go"},
					filepath.Base(path)) {
				return nil
			}

			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					out[s.Sel.Name] = true
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestWithoutEffect: who sets such a setting is told, by its name in the file and with what happens instead. Defaults
// are no warning.
func TestWithoutEffect(t *testing.T) {
	for _, windows := range []bool{false, true} {
		path := write(t, t.TempDir(), "c.yaml", kind)
		if _, warnings, err := Load(Source{File: path, Windows: windows}); err != nil || len(warnings) > 0 {
			t.Errorf("windows %v: %v, %v", windows, warnings, err)
		}
	}
	path := write(t, t.TempDir(), "c.yaml", kind+"syncFrequency: 5s\nhairpinMode: none\nlogging: {format: json}\n")
	_, warnings, err := Load(Source{File: path})
	for _, want := range []string{"syncFrequency: without effect: ", "hairpinMode: without effect: ",
		"logging.format: without effect: "} {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("no warning %q: %v", want, warnings)
		}
	}
	if err != nil || len(warnings) != 3 {
		t.Errorf("%d warnings, %v", len(warnings), err)
	}

	for text, want := range map[string]string{"cpuCFSQuotaPeriod: 5s\n": "must be between 1ms and 1sec",
		"qosReserved: {memory: 50%}\n":                      "requires feature gate QOSReserved",
		"enforceNodeAllocatable: [pods, system-reserved]\n": "systemReservedCgroup (--system-reserved-cgroup) must be specified", "enforceNodeAllocatable: [all]\n": `option "all" specified`,
		"enforceNodeAllocatable: [none, pods]\n": "may not contain additional enforcements"} {
		path := write(t, t.TempDir(), "c.yaml", kind+text)
		if _, _, err := Load(Source{File: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
