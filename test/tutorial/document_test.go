package tutorial

import (
	"os"
	"slices"
	"testing"
)

// TestParse: the commands of a document are found with what they shall print.
func TestParse(t *testing.T) {
	list,
		err := parse(
		"text\n```console\n# cat > f <<'EOF'\n# not a command\nEOF\n# ls\nf\n```\nmore\n```console\n# rm f\n```\n")
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	if c := list[0]; c.line != 3 || c.text != "cat > f <<'EOF'\n# not a command\nEOF" || len(c.want) > 0 {
		t.Errorf("%+v", c)
	}
	if c := list[1]; c.text != "ls" || !slices.Equal(c.want, []string{"f"}) {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"```sh\nls\n```", "```console\nf\n```", "```console\n# ls\n"} {
		if list, err := parse(bad); err == nil {
			t.Errorf("%q: %+v", bad, list)
		}
	}
}

// TestMissing: what a document wants is found in what was printed, whatever the times and addresses are.
func TestMissing(t *testing.T) {
	const output = "NAME   AGE\nwin01  2m3s\nwin02  40s\ntook 12.5 s (10.99.0.21)\n"
	for _, c := range []struct {
		want    []string
		missing string
	}{
		{[]string{"NAME AGE", "win02 31s"}, ""},
		{[]string{"win02 31s", "win01 31s"}, ""},
		{[]string{"win02 31s", "win02 31s"}, "win02 31s"},
		{[]string{"win03 31s"}, "win03 31s"},
		{[]string{"took 9.1 s (10.99.0.101)"}, ""},
		{nil, ""},
	} {
		if got := missing(c.want, output); got != c.missing {
			t.Errorf("%q: missing %q, want %q", c.want, got, c.missing)
		}
	}
}

// TestDocuments: the documents that are run have commands.
func TestDocuments(t *testing.T) {
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := parse(string(text)); err != nil || len(list) < 5 {
			t.Errorf("%s: %d commands, %v", name, len(list), err)
		}
	}
}

var documents = []string{"../../docs/use/tutorial.md"}
