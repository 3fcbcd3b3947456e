package wine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/internal/testkit"
)

// TestMends asks what this Wine needs of each mend, as `porthole check` does: docs/wine.md says the same, for the
// Wines that it knows. Where a mend is needed, the program that does what it is for has been seen to fail without it.
func TestMends(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	tools, dlls := fitTools(t)
	build, err := LookupBuild(26100)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // programs run as a user of their own
		t.Fatal(err)
	}
	o := TemplateOptions{Dir: TemplateDir(dir, build.Number), Build: build, DLLDir: dlls, Owner: Owner}

	version, list, err := tools.KnownMends(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	compareWithDocument(t, version, list)
	for _, m := range list {
		if m.Outcome != MendNotNeeded && m.Why == "" {
			t.Errorf("%s is %s, and nothing says why", m.Name, m.Outcome)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "wine", "mends-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}

	// The second time it is known.
	tools.Loader += "-moved"
	if _, _, err := tools.KnownMends(t.Context(), dir, o); err == nil {
		t.Error("what another Wine needs is taken for what this one needs")
	}
	tools.Loader = strings.TrimSuffix(tools.Loader, "-moved")
	o.Dir = "/proc/none" // nobody is asked
	if _, again, err := tools.KnownMends(t.Context(), dir, o); err != nil || !slices.Equal(again, list) {
		t.Errorf("again: %v, %v", again, err)
	}
}

// compareWithDocument compares the mends with the table of docs/wine.md, in which each has a row: its name, what it
// is for, where it is, and what Wine 8.0 and 10.0 need of it.
func compareWithDocument(t *testing.T, version string, list []Mend) {
	t.Helper()
	column := 0
	switch {
	case strings.HasPrefix(version, "wine-8.0 "):
		column = 4
	case strings.HasPrefix(version, "wine-10.0 "):
		column = 5
	}
	text, err := os.ReadFile("../../docs/wine.md")
	if err != nil {
		t.Fatal(err)
	}

	var rows [][]string
	for line := range strings.Lines(string(text)) {
		if row := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && len(row) == 6 {
			rows = append(rows, row)
		}
	}
	if len(rows) != len(list) {
		t.Fatalf("docs/wine.md has %d mends, and %s %d", len(rows), version, len(list))
	}

	for i, m := range list {
		row := rows[i]
		if name := strings.Trim(row[0], "|` "); name != m.Name || row[1] != m.What {
			t.Errorf("docs/wine.md has %s, %s, want %s, %s", name, row[1], m.Name, m.What)
		}
		if column == 0 {
			t.Logf("%s %s: %s", m.Name, m.Outcome, m.Why) // a Wine that the document does not know
		} else if row[column-1] != string(m.Outcome) {
			t.Errorf("docs/wine.md says that %s is %s, and %s finds %s: %s", m.Name, row[column-1], version, m.Outcome,
				m.Why)
		}
	}
}

// TestMendsUnfit: a mend that does not fit is said to be so, by its function, and the others are asked about.
func TestMendsUnfit(t *testing.T) {
	tools, _ := fitTools(t)
	dlls := t.TempDir()
	if err := testkit.UnfitDLLs("../..", dlls); err != nil {
		t.Fatal(err)
	}
	list, err := tools.unfit(t.Context(), dlls)
	if err != nil {
		t.Fatal(err)
	}
	if functions := unfitFor("registry", list); functions != testkit.Unfit {
		t.Errorf("registry does not fit by %q", functions)
	}
	if functions := unfitFor("link", list); functions != "" {
		t.Errorf("link does not fit by %q", functions)
	}
}
