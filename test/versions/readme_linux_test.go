package versions

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/testkit/archive"
)

var update = flag.Bool("update", false, "write the table of versions into README.md")

// The lines of README.md between which the table stands.
const (
	begin = "<!-- `tools/go test ./test/versions -update` writes this table. -->\n"
	end   = "<!-- end of the table -->\n"
)

// parts are the third-party parts of the table: the file that pins each, and what stands before the version there.
var parts = []struct{ title, file, before string }{
	{"Kubernetes", "bundle/controlplane/go.mod", "k8s.io/kubernetes v"},
	{"containerd", "bundle/containerd/go.mod", "github.com/containerd/containerd/v2 v"},
	{"Wine, below emulated hosts", "tools/root/root.lock", "\nwine64 "},
}

// TestReadme fails if the table in README.md is not what is there.
func TestReadme(t *testing.T) {
	const file = "../../README.md"
	want := table(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(data), begin)
	have, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("README.md has no table of versions between the lines %q and %q", begin, end)
	}

	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Errorf(
			"the table of versions in README.md is\n%s\nwant\n%s\n`tools/go test ./test/versions -update` writes it",
			have, want)
	}
}

// table returns the table: what is pinned, which Windows builds can be emulated, and the root file systems in which
// `make test-archive` runs a cluster.
func table(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| part | versions |\n|---|---|\n")
	for _, p := range parts {
		data, err := os.ReadFile(filepath.Join("../..", p.file))
		if err != nil {
			t.Fatal(err)
		}
		version := regexp.MustCompile(regexp.QuoteMeta(p.before) + `([0-9.]+)`).FindSubmatch(data)
		if version == nil {
			t.Fatalf("%s does not name the version of %s", p.file, p.title)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", p.title, version[1])
	}

	var builds, roots []string
	for _, number := range wine.Builds() {
		build, err := wine.LookupBuild(number)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(strings.TrimSuffix(build.Product, " Datacenter"), "Windows ")
		builds = append(builds, fmt.Sprintf("%s (%d)", name, number))
	}
	for _, r := range archive.Roots {
		roots = append(roots, r.Title)
	}
	fmt.Fprintf(&b, "| Windows builds, emulated | %s |\n", strings.Join(builds, ", "))
	fmt.Fprintf(&b, "| a cluster came up on | %s |\n", strings.Join(roots, ", "))
	return b.String()
}
