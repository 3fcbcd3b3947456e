package layering

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listed is the part of `go list -json` that is read.
type listed struct {
	ImportPath, Dir           string
	GoFiles                   []string
	Imports, Deps             []string
	TestImports, XTestImports []string
	Module                    *struct{ Path string }
}

func list(t *testing.T, goos string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e",
		"-json=ImportPath,Dir,GoFiles,Imports,Deps,TestImports,XTestImports,Module", Module+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages for %s: %v\n%s", goos, err, stderr.String())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("reading the package list: %v", err)
		}
		if len(l.GoFiles) > 0 {
			all = append(all, l)
		}
	}
}

func relative(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = strings.TrimPrefix(p, Module+"/")
	}
	return out
}

// importsOfOurs returns the direct imports of l and of every package of this module that l reaches.
func importsOfOurs(all []listed, l listed) []string {
	imports := slices.Clone(l.Imports)
	for _, other := range all {
		if slices.Contains(l.Deps, other.ImportPath) {
			imports = append(imports, other.Imports...)
		}
	}
	return imports
}

// TestLayers fails with the reason when a package imports what it may not, on either system.
func TestLayers(t *testing.T) {
	for _, goos := range []string{"linux", "windows"} {
		var pkgs []packageInfo
		all := list(t, goos)
		for _, l := range all {
			pkgs = append(pkgs, packageInfo{path: strings.TrimPrefix(l.ImportPath, Module+"/"),
				imports: relative(l.Imports), deps: relative(l.Deps), ours: relative(importsOfOurs(all, l)),
				goos: goos})
		}
		if len(pkgs) < 3 {
			t.Fatalf("only %d packages listed for %s", len(pkgs), goos)
		}
		for _, v := range violations(pkgs, rules()) {
			t.Error(v)
		}
	}
}

// TestClusterRows: each folder of cluster has its row, and no row names a folder that is gone.
func TestClusterRows(t *testing.T) {
	var have []string
	for _, l := range list(t, "linux") {
		if p := strings.TrimPrefix(l.ImportPath, Module+"/"); matches(p, "cluster/...") {
			have = append(have, p)
		}
	}
	want := slices.Sorted(slices.Values(slices.Concat(clusterRows...)))
	if slices.Sort(have); !slices.Equal(have, want) {
		t.Errorf("packages of cluster are %v, rows have %v", have, want)
	}
}

// TestPlansArePure holds every plan.go to the rule of the pure folders, wherever it lies.
func TestPlansArePure(t *testing.T) {
	root := moduleRoot(t)
	for _, l := range list(t, "linux") {
		if !slices.Contains(l.GoFiles, "plan.go") {
			continue
		}
		file := filepath.Join(l.Dir, "plan.go")
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(root, file)
		for _, spec := range parsed.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if matchesAny(path, impure) {
				t.Errorf("%s imports %s: a plan is a pure function of its arguments", name, path)
			}
		}
	}
}

// TestBubbles: tests use testing/synctest through internal/testkit/bubble, with which the race detector lives.
func TestBubbles(t *testing.T) {
	for _, l := range list(t, "linux") {
		if strings.HasSuffix(l.ImportPath, "internal/testkit/bubble") {
			continue
		}
		if slices.Contains(slices.Concat(l.Imports, l.TestImports, l.XTestImports), "testing/synctest") {
			t.Errorf("%s imports testing/synctest: use internal/testkit/bubble", l.ImportPath)
		}
	}
}

// TestPackageComments: every package has exactly one package comment, which begins with its name.
func TestPackageComments(t *testing.T) {
	root := moduleRoot(t)
	seen := map[string]bool{}
	for _, goos := range []string{"linux", "windows"} {
		for _, l := range list(t, goos) {
			name, _ := filepath.Rel(root, l.Dir)
			comments := 0
			for _, f := range l.GoFiles {
				parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(l.Dir, f), nil,
					parser.PackageClauseOnly|parser.ParseComments)
				if err != nil {
					t.Fatal(err)
				}
				if parsed.Doc == nil {
					continue
				}
				comments++
				if text := parsed.Doc.Text(); !strings.HasPrefix(text, "Package "+parsed.Name.Name+" ") &&
					!strings.HasPrefix(text, "Command ") {
					t.Errorf("%s/%s: the package comment does not begin with \"Package %s\" or \"Command\"", name, f,
						parsed.Name.Name)
				}
			}

			if comments != 1 && !seen[name] {
				seen[name] = true
				t.Errorf("%s has %d package comments for %s, want exactly 1", name, comments, goos)
			}
		}
	}
}

// TestReadmes: a README names each folder with packages that lies beside it.
func TestReadmes(t *testing.T) {
	root := moduleRoot(t)
	named := 0
	for folder, below := range packageFolders(t, root) {
		text, err := os.ReadFile(filepath.Join(root, folder, "README.md"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for name := range below {
			if !regexp.MustCompile("[`/]" + regexp.QuoteMeta(name) + "[`/]").Match(text) {
				t.Errorf("%s/README.md does not name the folder `%s/`", folder, name)
			}
			named++
		}
	}
	if named < 100 {
		t.Errorf("only %d folders were looked for", named)
	}
}

// packageFolders returns the names of the folders with packages, at any depth, that each folder below root has.
func packageFolders(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	folders := map[string]map[string]bool{}
	for _, goos := range []string{"linux", "windows"} {
		for _, l := range list(t, goos) {
			path, err := filepath.Rel(root, l.Dir)
			if err != nil {
				t.Fatal(err)
			}
			for parent := filepath.Dir(path); parent != "."; path, parent = parent, filepath.Dir(parent) {
				if folders[parent] == nil {
					folders[parent] = map[string]bool{}
				}
				folders[parent][filepath.Base(path)] = true
			}
		}
	}
	return folders
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", Module).Output()
	if err != nil {
		t.Fatalf("finding the module: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestViolations shows that the rules catch what they are for, and nothing else.
func TestViolations(t *testing.T) {
	cases := []struct {
		name string
		pkg  packageInfo
		want string // part of the only violation; "" for none
	}{
		{"plain", packageInfo{path: "routes/table", imports: []string{"net/netip"}}, ""},
		{"pure folder runs programs", packageInfo{path: "routes/table", ours: []string{"os/exec"}}, "pure"},
		{"pure folder reaches the kernel through another",
			packageInfo{path: "emulator/hnsd", ours: []string{"github.com/vishvananda/netlink"}}, "pure"},
		{"pure folder logs", packageInfo{path: "proxy/service", ours: []string{"k8s.io/klog/v2"}}, "pure"},
		{"pure folder, impure standard library",
			packageInfo{path: "routes/table", imports: []string{"fmt"}, deps: []string{"fmt", "os"},
				ours: []string{"fmt"}}, ""},
		{"client outside its adapter",
			packageInfo{path: "routes/hostgw", imports: []string{"k8s.io/client-go/kubernetes"}}, "internal/kube only"},
		{"client in its adapter", packageInfo{path: "internal/kube", imports: []string{"k8s.io/client-go/kubernetes"}},
			""},
		{"oracle uses client code through another", packageInfo{path: "emulator/hnsd", deps: []string{"hns"}},
			"independent oracle"},
		{"product imports product", packageInfo{path: "kubelet/pod", deps: []string{"proxy/service"}},
			"never import each other"},
		{"product knows the emulator", packageInfo{path: "hns/hnstest", imports: []string{"emulator/hnsd"}},
			"no product knows the emulator"},
		{"too deep", packageInfo{path: "kubelet/pod/deep"}, "two levels"},
		{"internal reaches up", packageInfo{path: "internal/platform", imports: []string{"routes/table"}},
			"arrows point down"},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := violations([]packageInfo{c.pkg}, rules())
			if c.want == "" && len(got) > 0 {
				t.Fatalf("got %q, want none", got)
			}
			if c.want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), c.want)) {
				t.Fatalf("got %q, want one about %q", got, c.want)
			}
		})
	}
}
