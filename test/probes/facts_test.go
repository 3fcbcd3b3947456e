package probes

import (
	"flag"
	"os"
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
		t.Fatalf("the table of open questions in %s is not that of check.Facts: go test ./test/probes -run TestOpenQuestions -update", factsFile)
	}
	if err := os.WriteFile(factsFile, []byte(head+begin+want+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
