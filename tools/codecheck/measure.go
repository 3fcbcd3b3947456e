package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// longFunction is the length from which a function is expected to have paragraphs, as reviews of other code bases
// count it.
const longFunction = 25

// listed is how many of the widest types are printed.
const listed = 8

// printMeasures prints figures that show how easy the tree is to read.
func printMeasures(out io.Writer, t *tree) error {
	printWidest(out, t)
	printParagraphs(out, t)
	printShares(out, t)

	dependencies, err := directDependencies(t.root)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "direct dependencies: %d\n", dependencies)

	if err := printLines(out, t); err != nil {
		return err
	}
	return printCycles(out, t.root)
}

// printWidest prints the types with the most methods and fields, and the interfaces with the most methods, without
// those of tests.
func printWidest(out io.Writer, t *tree) {
	all := slices.DeleteFunc(t.widths(), func(w width) bool { return w.file.test || isHarness(w.file.name) })
	for _, m := range []struct {
		title string
		of    func(width) int
	}{
		{"widest types by methods", func(w width) int { return w.methods }},
		{"widest types by fields", func(w width) int { return w.fields }},
		{"widest interfaces", func(w width) int { return w.ofInterface }},
	} {
		slices.SortStableFunc(all, func(a, b width) int { return cmp.Compare(m.of(b), m.of(a)) })
		var texts []string
		for _, w := range all[:min(listed, len(all))] {
			texts = append(texts, fmt.Sprintf("%s %d", w.name, m.of(w)))
		}
		fmt.Fprintf(out, "%s: %s\n", m.title, strings.Join(texts, ", "))
	}
}

// printParagraphs prints how many longer functions have no blank line.
func printParagraphs(out io.Writer, t *tree) {
	long := 0
	dense := 0
	longTests := 0
	denseTests := 0
	t.functions(func(_ *folder, f *file, fn *ast.FuncDecl) {
		if t.length(fn) < longFunction {
			return
		}
		blank := t.hasBlankLine(f, fn)
		if f.test {
			longTests++
		} else {
			long++
		}
		if !blank && f.test {
			denseTests++
		} else if !blank {
			dense++
		}
	})

	fmt.Fprintf(out, "functions of %d lines or more without a blank line: %d of %d (%s); in tests %d of %d (%s)\n",
		longFunction, dense, long, percent(dense, long), denseTests, longTests, percent(denseTests, longTests))
}

// printShares prints which shares of the lines outside tests are comments and blank.
func printShares(out io.Writer, t *tree) {
	all, comment, blank := 0, 0, 0
	for _, dir := range t.folders {
		for _, f := range dir.files {
			if f.test {
				continue
			}
			lines := len(f.lines) - 1 // the file ends in a line feed
			all += lines
			comment += t.commentLines(f)
			for _, l := range f.lines[:lines] {
				if len(bytes.TrimSpace(l)) == 0 {
					blank++
				}
			}
		}
	}
	fmt.Fprintf(out, "lines without tests: %d, comment %s, blank %s\n", all, percent(comment, all), percent(blank, all))
}

// commentLines counts the lines that hold nothing but a comment.
func (t *tree) commentLines(f *file) int {
	n := 0
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			first := f.lines[t.line(c.Pos())-1]
			if bytes.HasPrefix(bytes.TrimSpace(first), []byte("/")) {
				n += t.line(c.End()) - t.line(c.Pos()) + 1
			}
		}
	}
	return n
}

func percent(part, all int) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(all, 1)))
}

// directDependencies counts the requirements of go.mod that are not marked as indirect.
func directDependencies(root string) (int, error) {
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, err
	}

	n, inBlock := 0, false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			inBlock = true
		case line == ")":
			inBlock = false
		case strings.HasPrefix(line, "//"), strings.HasSuffix(line, "// indirect"), line == "":
		case inBlock, strings.HasPrefix(line, "require "):
			n++
		}
	}
	return n, nil
}

// harness are the folders whose files are part of the tests though their names do not end in _test.go.
var harness = []string{"test/", "internal/testkit/", "internal/script/", "hns/hnstest/",
	"kubelet/runtime/runtimetest/", "routes/plantest/", "routes/killtest/"}

func isHarness(name string) bool {
	return slices.ContainsFunc(harness, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// printLines compares the size of the tests with that of what they test.
func printLines(out io.Writer, t *tree) error {
	source, tests, helpers := 0, 0, 0
	for _, dir := range t.folders {
		for _, f := range dir.files {
			lines := len(f.lines) - 1
			switch {
			case f.test:
				tests += lines
			case isHarness(f.name):
				helpers += lines
			default:
				source += lines
			}
		}
	}
	scripts, err := scriptLines(t.root)
	if err != nil {
		return err
	}

	per := func(part, all int) float64 { return float64(part) / float64(max(all, 1)) }
	fmt.Fprintf(out, "lines: source %d, tests %d, harness %d, scripts %d\n", source, tests, helpers, scripts)
	fmt.Fprintf(out, "test lines per source line: %.2f with the harness as source, %.2f with the harness as test\n",
		per(tests+scripts, source+helpers), per(tests+scripts+helpers, source))
	return nil
}

// scriptLines counts the lines of txtar scripts.
func scriptLines(root string) (n int, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && d.Name() != "testdata" && skipped(d.Name()) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".txtar" {
			return nil
		}
		data, err := os.ReadFile(path)
		n += bytes.Count(data, []byte("\n"))
		return err
	})
	return n, err
}
