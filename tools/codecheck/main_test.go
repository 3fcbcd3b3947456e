package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a module of the given files, by path, and loads it.
func write(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	loaded, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// function is a source file with one function whose length is that many lines.
func function(lines int, inside string) string {
	body := strings.Repeat("\tx()\n", lines-2-strings.Count(inside, "\n"))
	return "package p\n\nfunc f() {\n" + body + inside + "}\n"
}

func TestParagraphs(t *testing.T) {
	for _, c := range []struct {
		what, source string
		want         int
	}{
		{"25 lines", function(25, ""), 0},
		{"26 lines", function(26, ""), 1},
		{"26 lines in two paragraphs", function(26, "\n\tx()\n"), 0},
		{"a blank line of spaces", function(26, "\t \n\tx()\n"), 0},
		{"a comment separates nothing", function(26, "\t// more\n\tx()\n"), 1},
		{"a blank line inside a text", function(26, "\ty(`a\n\nb`)\n"), 1},
		{"a table of 26 lines", function(24, "\ty([]int{\n\t\t1,\n\t\t2,\n\t})\n") + "\n", 0},
		{"a blank line beside a text", function(26, "\ty(`a\nb`)\n\n\tx()\n"), 0},
	} {
		if found := paragraphs(write(t, map[string]string{"p/f.go": c.source})); len(found) != c.want {
			t.Errorf("%s: %v, want %d", c.what, found, c.want)
		}
	}
}

func TestColumns(t *testing.T) {
	wide := func(n int) string { return "\tx(" + strings.Repeat("a, ", n/3) + "a)\n" }
	text := strings.Repeat("a", 120)
	for _, c := range []struct {
		what, inside string
		want         string
	}{
		{"120 columns, a tab being four", "\tx(" + strings.Repeat("a", 113) + ")\n", ""},
		{"121 columns", "\tx(" + strings.Repeat("a", 114) + ")\n", "p/f.go:4: a line of 121 columns"},
		{"letters of several bytes", "\tx(" + strings.Repeat("é", 113) + ")\n", ""},
		{"arguments", wide(150), "a line of"},
		{"a long text", "\tx(\"" + text + "\")\n", ""},
		{"a short text on a wide line", "\tx(\"a\", " + strings.Repeat("a, ", 50) + "a)\n", "a line of"},
		{"a raw string", "\tx(`" + text + "\n" + text + "`)\n", ""},
		{"a comment", "\t// " + text + "\n", "a line of"},
		{"a drawing", "\t//\t" + text + "\n", ""},
	} {
		found := columns(write(t, map[string]string{"p/f.go": "package p\n\nfunc f() {\n" + c.inside + "}\n"}))
		if got := fmt.Sprint(found); (c.want == "") != (len(found) == 0) || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v, want %q", c.what, found, c.want)
		}
	}
}

func TestWidths(t *testing.T) {
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	fields := func(n int) string {
		return "package p\ntype T struct {\n" + list(n, "a%d, b%[1]d int") + "embedded\n}\n"
	}
	methods := func(n int) string { return "package p\ntype T[K any] struct{}\n" + list(n, "func (t *T[K]) m%d() {}") }

	for _, c := range []struct {
		what  string
		files map[string]string
		want  string
	}{
		{"25 fields", map[string]string{"p/p.go": fields(12)}, ""},
		{"27 fields", map[string]string{"p/p.go": fields(13)}, "type p.T has 27 fields"},
		{"30 methods", map[string]string{"p/p.go": methods(30)}, ""},
		{"31 methods", map[string]string{"p/p.go": methods(31)}, "type p.T has 31 methods"},
		{"one method for each system",
			map[string]string{"p/p.go": methods(30), "p/p_linux.go": "package p\nfunc (t T[K]) m0() {}\n"}, ""},
		{"another package's type",
			map[string]string{"p/p.go": methods(30), "q/q.go": "package q\ntype T struct{}\nfunc (T) other() {}\n"},
			""},
		{"a facet's methods count", map[string]string{"p/p.go": "package p\ntype T struct{}\n" +
			list(30, "func (t *T) m%d() {}"), "p/q.go": "package p\ntype calls struct{ *T }\nfunc (c calls) m0() {}\n"},
			"type p.T has 31 methods"},
		{"a function that changes the structure counts",
			map[string]string{"p/p.go": "package p\ntype T struct{ a []int }\n" +
				list(30, "func (t *T) m%d() {}") + "func set(_ context.Context, t *T) { t.a[0]++ }\n"},
			"type p.T has 31 methods"},
		{"one that reads it does not", map[string]string{"p/p.go": "package p\ntype T struct{ a []int }\n" +
			list(30, "func (t *T) m%d() {}") + "func get(t *T) int { b := t.a[0]; b++; return b }\n"}, ""},
		{"nor does one of a structure without methods",
			map[string]string{"p/p.go": "package p\ntype T struct{ a int }\n" +
				list(31, "func set%d(t *T) { t.a = 1 }")}, ""},
		{"7 methods", map[string]string{"p/p.go": "package p\ntype I interface {\n" + list(7, "m%d()") + "}\n"}, ""},
		{"8 methods", map[string]string{"p/p.go": "package p\ntype I interface {\n" + list(8, "m%d()") + "}\n"},
			"interface p.I has 8 methods"},
		{"an embedded interface counts with its methods",
			map[string]string{"p/p.go": "package p\ntype J interface {\n" + list(4, "j%d()") + "}\n" +
				"type I interface {\nJ\nio.Closer\n" + list(3, "m%d()") + "}\n"}, "interface p.I has 8 methods"},
	} {
		found := widths(write(t, c.files))
		if c.want == "" && len(found) > 0 ||
			c.want != "" && (len(found) != 1 || !strings.Contains(found[0].text, c.want)) {
			t.Errorf("%s: %v, want %q", c.what, found, c.want)
		}
	}
}

// TestMirrors: an exception holds for its type only, and is reported once the type needs it no more.
func TestMirrors(t *testing.T) {
	defer func(old map[string]string) { mirrors = old }(mirrors)
	mirrors = map[string]string{"p.T": "as the API has it", "p.Small": "it was large"}

	many := strings.Repeat("_, _ int\n", 13)
	found := widths(write(t,
		map[string]string{"p/p.go": "package p\ntype T struct {\n" + many + "}\ntype U struct {\n" + many +
			"}\ntype Small struct{}\n"}))
	if len(found) != 2 || !strings.Contains(found[0].text, "type p.U") ||
		!strings.Contains(found[1].text, "p.Small is an exception") {
		t.Errorf("found %v", found)
	}
}

// TestTooWide: a type of the list may not grow, and leaves the list when it needs it no more.
func TestTooWide(t *testing.T) {
	defer func(old map[string]int) { tooWide = old }(tooWide)
	tooWide = map[string]int{"p.T": 31, "p.Small": 40, "p.Gone": 50, "q.Elsewhere": 60}

	for n, want := range map[int]string{31: "[]",
		32: "type p.T has 32 methods with its facets and functions, at most 31"} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "func (T) m%d() {}\n", i)
		}
		found := widths(write(t,
			map[string]string{"p/p.go": "package p\ntype T struct{}\ntype Small struct{}\n" + b.String()}))
		text := fmt.Sprint(found)
		for _, part := range []string{strings.Trim(want, "[]"), "type p.Small has 0 methods: remove it",
			"no type p.Gone"} {
			if !strings.Contains(text, part) {
				t.Errorf("%d methods: %s, want %q", n, text, part)
			}
		}
		if strings.Contains(text, "Elsewhere") || want == "[]" && len(found) != 2 {
			t.Errorf("%d methods: %s", n, text)
		}
	}
}

func TestComments(t *testing.T) {
	for _, c := range []struct{ what, source, want string }{
		{"the sentence of a parameter that is gone",
			"// Event records an event. init tells which list has it.\nfunc Event(p int) {}", "init"},
		{"after a semicolon",
			"// Forms reads a header; ok is false when nothing fits.\nfunc Forms(a string) (int, bool) { return 0, false }", "ok"},
		{"in a condition",
			"// Event records an event. If container is not empty, it is about that.\nfunc Event(p int) {}",
			"container"},
		{"on the next line", "// Event records an event.\n// init, is a list.\nfunc Event(p int) {}", "init"},
		{"of an interface", "type i interface {\n// Get reads. from says where.\nGet(to int)\n}", "from"},
		{"a parameter", "// Event records an event. init tells which list has it.\nfunc Event(init bool) {}", ""},
		{"a result",
			"// Forms reads a header; ok is false when nothing fits.\nfunc Forms(a string) (n int, ok bool) { return 0, false }", ""},
		{"the receiver", "// Take takes. s is changed.\nfunc (s *S) Take() {}\ntype S struct{}", ""},
		{"a field of the receiver",
			"// Take takes. If full is false, nothing happens.\nfunc (s *S) Take() {}\ntype S struct{ full bool }", ""},
		{"a parameter of a parameter", "// Walk calls f. depth is 0 at the root.\nfunc Walk(f func(depth int)) {}", ""},
		{"a type parameter", "// Map maps. elem is any type.\nfunc Map[elem any]() {}", ""},
		{"a declaration of the package", "// Take takes. limit is never reached.\nfunc Take() {}\nconst limit = 3", ""},
		{"the function's own name", "// take takes; take is quick.\nfunc take() {}", ""},
		{"an ordinary word", "// Take takes. If nothing is empty, it waits; it is slow.\nfunc Take() {}", ""},
		{"an abbreviation", "// Take takes some, e.g. water is taken.\nfunc Take() {}", ""},
		{"a drawing", "// Take takes.\n//\n//\ta. box is drawn\nfunc Take() {}", ""},
		{"a test", "// TestTake takes. water is wet.\nfunc TestTake(t int) {}", ""},
		{"a field of another type", "// Take takes. full is true.\nfunc Take() {}\ntype S struct{ full bool }", "full"},
	} {
		found := comments(write(t, map[string]string{"p/p.go": "package p\n" + c.source + "\n"}))

		if c.want == "" && len(found) > 0 ||
			c.want != "" && (len(found) != 1 || !strings.Contains(found[0].text, `"`+c.want+`"`)) {
			t.Errorf("%s: %v, want %q", c.what, found, c.want)
		}
	}
}

// TestRun: problems are printed in order and end the program, counts and measures do not; other folders are left alone.
func TestRun(t *testing.T) {
	long := function(30, "")
	root := write(t, map[string]string{
		"go.mod":             "module example.com/m\n\ngo 1.24\n\nrequire (\n\texample.com/a v1.0.0\n\texample.com/b v1.0.0 // indirect\n)\n",
		"b/b.go":             long,
		"a/a.go":             long,
		"bin/left.go":        long,
		"a/testdata/x.go":    long,
		"a/testdata/s.txtar": "one\ntwo\n",
		"a/a_test.go":        "package p\n",
	}).root
	var out bytes.Buffer
	if ok, err := run(&out, root, options{}); ok || err != nil {
		t.Errorf("problems: %t, %v", ok, err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 ||
		!strings.HasPrefix(lines[0], "a/a.go:3: function f has 30 lines") {
		t.Errorf("problems:\n%s", out.String())
	}

	out.Reset()
	if ok, err := run(&out, root, options{without: []string{"a", "b"}}); !ok || err != nil || out.Len() > 0 {
		t.Errorf("without both folders: %t, %v\n%s", ok, err, out.String())
	}
	if ok, err := run(&out, root, options{without: []string{"a"}}); ok || err != nil ||
		!strings.HasPrefix(out.String(), "b/b.go:3:") {
		t.Errorf("without one folder: %t, %v\n%s", ok, err, out.String())
	}

	out.Reset()
	if ok, err := run(&out, root, options{count: true}); !ok || err != nil ||
		!strings.Contains(out.String(), "2  in all") {
		t.Errorf("counts: %t, %v\n%s", ok, err, out.String())
	}
}

func TestMeasures(t *testing.T) {
	loaded := write(t, map[string]string{
		"go.mod":             "module example.com/m\n\ngo 1.24\n\nrequire example.com/a v1.0.0\nrequire (\n\texample.com/b v1.0.0\n\texample.com/c v1.0.0 // indirect\n)\n",
		"p/a.go":             "package p\n\n// T is a type.\ntype T struct{ n int }\n\nfunc (t T) Get() int { return helper() }\n",
		"p/b.go":             "package p\n\nimport \"fmt\"\n\nfunc helper() int { return T{}.n }\n\nfunc Print() { fmt.Println() }\n",
		"p/c.go":             "package p\n\nvar X = T{}.Get()\n",
		"p/a_test.go":        "package p\n\n\n\n",
		"test/h/h.go":        "package h\n",
		"p/testdata/s.txtar": "one\ntwo\n",
	})
	if n, err := directDependencies(loaded.root); n != 2 || err != nil {
		t.Errorf("%d direct dependencies, error %v", n, err)
	}

	var out bytes.Buffer
	if err := printLines(&out, loaded); err != nil ||
		!strings.Contains(out.String(), "source 16, tests 4, harness 1, scripts 2") {
		t.Errorf("lines: %v\n%s", err, out.String())
	}
	out.Reset()
	printShares(&out, loaded)
	if !strings.Contains(out.String(), "lines without tests: 17, comment 5.9 %, blank 35.3 %") {
		t.Errorf("shares:\n%s", out.String())
	}
}

// TestCycles: two files that use each other are one pair; a file that is only used is none.
func TestCycles(t *testing.T) {
	root := write(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n",
		"p/a.go": "package p\n\ntype T struct{ n int }\n\nfunc (t T) Get() int { return helper() }\n",
		"p/b.go": "package p\n\nfunc helper() int { return T{}.n }\n",
		"p/c.go": "package p\n\nvar X = T{}.Get()\n",
	}).root
	var out bytes.Buffer
	if err := printCycles(&out, root); err != nil ||
		!strings.Contains(out.String(), "both directions: 1 (of 3 arrows in all)") ||
		!strings.Contains(out.String(), "1 of   3 arrows between  3 files  example.com/m/p") {
		t.Errorf("%v\n%s", err, out.String())
	}

	out.Reset()
	want := "a.go, b.go\n\ta.go uses helper(1)\n\tb.go uses T(1) n(1)\n"
	if ok, err := run(&out, root, options{pairs: "p"}); !ok || err != nil || out.String() != want {
		t.Errorf("pairs: %t, %v\n%s", ok, err, out.String())
	}
}
