package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const list = "# comment\n## First\n1.2 | pods run |\n1.3 | packets pass | none of them over IPv6\n## Second\n1.20 | history | none: nobody needs it\n"

// tree makes a tree of a list and tests.
func tree(t *testing.T, rows string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files["tools/rows/rows.txt"] = rows
	files["docs/evidence/rows.md"] = ""
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const pods = "package p\n\n// TestPods runs pods.\n// Row 1.2.\nfunc TestPods(t *testing.T) { run(t) }\n"

func TestRun(t *testing.T) {
	packets := "package p\n\n// Rows 1.2, 1.3.\nfunc TestPackets(t *testing.T) { run(t) }\n"
	root := tree(t, list, map[string]string{"a/a_test.go": pods, "b/b_windows_test.go": packets})
	if err := run(root, false); err == nil || !strings.Contains(err.Error(), "-update") {
		t.Errorf("a document of before is taken: %v", err)
	}
	if err := run(root, true); err != nil {
		t.Fatal(err)
	}
	if err := run(root, false); err != nil {
		t.Errorf("right after it was written: %v", err)
	}

	doc, err := os.ReadFile(filepath.Join(root, "docs/evidence/rows.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 1.2 | pods run | works | `a` TestPods; `b` TestPackets |\n",
		"| 1.3 | packets pass | partly: none of them over IPv6 | `b` TestPackets |\n",
		"| 1.20 | history | –: nobody needs it |  |\n", "1 rows work, 1 partly, 1 ask"} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("the document lacks %q:\n%s", want, doc)
		}
	}
}

// TestLost: each way in which a row loses its test, and each mistake of the list, is told.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct{ rows, file, want string }{
		"the comment is gone": {"## S\n1.2 | pods run |\n", "package p\n\nfunc TestPods(t *testing.T) { run(t) }\n",
			"row 1.2 (pods run) has no test"},
		"the test skips": {"## S\n1.2 | pods run |\n",
			"package p\n\n// Row 1.2.\nfunc TestPods(t *testing.T) { t.Skip() }\n", "row 1.2 (pods run) has no test"},
		"a test of none": {"## S\n1.2 | pods run | none: old\n", pods, "row 1.2 has a test (a TestPods), but"},
		"an unknown row": {"## S\n", pods, "names row 1.2, which is not in rows.txt"},
		"not a test": {"## S\n1.2 | pods run |\n", "package p\n\n// Row 1.2.\nfunc helper() { run() }\n",
			"has no test"},
		"a line of two fields": {"## S\n1.2 | pods run\n", pods, "line 2: want number"},
		"a number twice":       {"## S\n1.2 | pods run |\n1.2 | again |\n", pods, "line 3: a row without words"},
		"no heading":           {"1.2 | pods run |\n", pods, "line 1: want number"},
		"source in error":      {"## S\n1.2 | pods run |\n", "package p // Row\nfunc {", "expected"},
	} {
		err := run(tree(t, c.rows, map[string]string{"a/a_test.go": c.file}), true)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRowsOf(t *testing.T) {
	for doc, want := range map[string][]string{"Rows 1.1, 1.20.\n": {"1.1", "1.20"}, "text\nRow 1.3.\nmore\n": {"1.3"},
		"And so. Rows 1.1,\n1.20. More.\n": {"1.1", "1.20"},
		"Rows 1.1 and 1.2.\n":              nil, "in Row 1.2.\n": nil} {
		if got := rowsOf(doc); !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", doc, got, want)
		}
	}
}
