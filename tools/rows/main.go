// Command rows keeps docs/evidence/rows.md: which test shows each row of rows.txt, the list of what the old documents
// about Kubernetes on Windows name. A test says by a line "// Rows 1.11, 1.14." of its doc comment what it shows.
// Without flags the command fails when a row has lost its last test, when a test names a row that is not there, or
// when the document is not what it would write; -update writes it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	update := flag.Bool("update", false, "write docs/evidence/rows.md")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := run(root, *update); err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
}

// run compares the document of the tree below root with what its rows and tests say, or writes it.
func run(root string, update bool) error {
	text, err := os.ReadFile(filepath.Join(root, "tools/rows/rows.txt"))
	if err != nil {
		return err
	}
	list, err := parse(string(text))
	if err != nil {
		return err
	}
	tests, err := find(root)
	if err != nil {
		return err
	}
	if problems := join(list, tests); len(problems) > 0 {
		return fmt.Errorf("\n  %s", strings.Join(problems, "\n  "))
	}

	doc := filepath.Join(root, "docs/evidence/rows.md")
	if update {
		return os.WriteFile(doc, []byte(document(list)), 0o644)
	}
	old, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	if string(old) != document(list) {
		return fmt.Errorf("%s is not what rows and tests say: tools/go run ./tools/rows -update", doc)
	}
	return nil
}
