package reference

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTests: the page of tests has each test of the whole, with what its comment says that it shows.
// Rows 1.04.
func TestTests(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What the tests show\n\n" + written("the comments of the tests") +
		"The tests of the whole: a cluster, a node, a service proxy, asked from outside. Each line is what the test asserts, in the words of its\n" +
		"comment. `make test` runs them, but for those that `test/README.md` names as longer; tests of single packages lie beside their code and\n" +
		"are not listed. Nothing of this ran on real Windows: [Shown, and not shown](../use/shown.md).\n")

	for _, name := range testFolders(t) {
		folder := filepath.Join(repository, name)
		list := testsOf(t, folder)
		if len(list) == 0 || name == "test/reference" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| test | what it shows |\n|---|---|\n", name, packageSays(t, name))
		for _, c := range list {
			if c.comment == "" {
				t.Errorf("%s %s has no comment that says what it shows", name, c.value)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", c.value, cell(c.comment))
		}
	}
	page(t, "evidence/tests.md", b.String())
}

// testFolders returns the folders of test and those below them, from the top of the repository, in order.
func testFolders(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(repository, "test"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" {
			return filepath.SkipDir
		}
		name, err := filepath.Rel(repository, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// testName matches the functions that go test runs.
var testName = regexp.MustCompile(`^Test[^a-z]`)

// testsOf returns the tests of a folder by name, each with the first sentence of its comment.
func testsOf(t *testing.T, folder string) (list []constant) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	rows := rowWords(t)

	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && testName.MatchString(fn.Name.Name) && fn.Name.Name != "TestMain" {
				text := strings.TrimSpace(isRows.ReplaceAllString(fn.Doc.Text(), ""))
				shows := []string{sentence(says(fn.Name.Name, synopsis(text)))}
				for _, number := range rowNumber.FindAllString(isRows.FindString(fn.Doc.Text()), -1) {
					shows = append(shows, sentence(rows[number]))
				}
				list = append(list, constant{fn.Name.Name, strings.TrimSpace(strings.Join(shows, " "))})
			}
		}
	}

	slices.SortFunc(list, func(a, b constant) int { return strings.Compare(a.value, b.value) })
	return list
}

var (
	// isRows matches the sentence of a comment by which a test names rows of tools/rows/rows.txt.
	isRows    = regexp.MustCompile(`\bRows?\s+1\.[0-9.,\s]*\.(\s|$)`)
	rowNumber = regexp.MustCompile(`1\.\d+`)
)

// rowWords returns the words of the rows by number.
func rowWords(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "tools/rows/rows.txt"))
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.SplitN(line, "|", 3); len(fields) == 3 && !strings.HasPrefix(line, "#") {
			words[strings.TrimSpace(fields[0])] = strings.TrimSpace(fields[1])
		}
	}
	return words
}

// packageSays returns what a package's comment says of it.
func packageSays(t *testing.T, name string) string {
	t.Helper()
	for _, s := range sources(t, name) {
		if s.file.Doc == nil || filepath.Dir(s.name) != name {
			continue
		}
		text := synopsis(s.file.Doc.Text())
		for _, before := range []string{"Package ", "Command "} {
			text = strings.TrimPrefix(text, before+filepath.Base(name)+" ")
		}
		return sentence(text)
	}
	return ""
}

// synopsis returns the first sentence of a comment.
func synopsis(text string) string { return new(doc.Package).Synopsis(text) }

// TestNamedTests: each test that a document names as showing something is there.
func TestNamedTests(t *testing.T) {
	known := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(source, -1) {
			known[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"SECURITY.md", "docs/gaps.md"} {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1) {
			if !known[test] {
				t.Errorf("%s names %s, which is not there", name, test)
			}
		}
	}
}

// testFunc matches the declaration of a test.
var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
