package probes

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"porthole.dev/porthole/check"
)

var update = flag.Bool("update", false, "write the table of open questions into docs/windows-facts.md")

const (
	factsFile = "../../docs/windows-facts.md"
	begin     = "<!-- from check.Facts: go test ./test/probes -run TestOpenQuestions -update -->\n"
	end       = "<!-- end of check.Facts -->\n"
)

// TestOpenQuestions: the document has the table of facts that `porthole check` compares.
func TestOpenQuestions(t *testing.T) {
	data, err := os.ReadFile(factsFile)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(data), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", factsFile, begin, end)
	}

	want := check.Markdown(check.Facts())
	if table == want {
		return
	}
	if !*update {
		t.Fatalf(
			"the table of open questions in %s is not that of check.Facts: go test ./test/probes -run TestOpenQuestions -update", factsFile)
	}
	if err := os.WriteFile(factsFile, []byte(head+begin+want+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	// question is the beginning of a row of the tables below "Open questions".
	question = regexp.MustCompile(`(?m)^\| (\d+) \|`)
	// mark is what a guess is marked with, and the number of the question that it hangs on, if it has one.
	mark = regexp.MustCompile(`(?i)\bunver` + `ified\b(?:, no\. (\d+))?`)
)

// TestMarks: every mark of a guess in the code gives the number of the open question whose answer would settle it.
func TestMarks(t *testing.T) {
	document, err := os.ReadFile(factsFile)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "## Open questions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var numbers []string
	for _, row := range question.FindAllStringSubmatch(section, -1) {
		numbers = append(numbers, row[1])
	}

	marks := 0
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == ".cache"):
			return filepath.SkipDir
		case !slices.Contains([]string{".go", ".c", ".h", ".def"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range mark.FindAllStringSubmatch(string(text), -1) {
			marks++
			if !slices.Contains(numbers, m[1]) {
				t.Errorf("%s: %q gives no number of an open question in %s; write for example \"unver"+
					"ified, no. 34\"", path, m[0], factsFile)
			}
		}
		return err
	})
	if err != nil || marks == 0 || len(numbers) == 0 {
		t.Errorf("%d marks and %d open questions were found, error %v", marks, len(numbers), err)
	}
}
