package reference

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the pages")

// repository is the root of the repository, as seen from this folder.
const repository = "../.."

// page compares a page below docs with what the code gives, or writes it.
func page(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(repository, "docs", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(have)); diff != "" {
		t.Errorf("docs/%s is not what the code gives; `tools/go test ./test/reference -update` writes it (-want +have)\n%s", name, diff)
	}
}

// written says below a page's title where its text comes from.
func written(from string) string {
	return "<!-- `tools/go test ./test/reference -update` writes this page from " + from + ". -->\n\n"
}

// cell makes a text fit into a cell of a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", "\\|", "<", "&lt;", ">", "&gt;").Replace(text)
}

// sentence returns a text with a capital letter at its beginning and a full stop at its end.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
