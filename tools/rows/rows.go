package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// row is one line of the list.
type row struct {
	number string
	words  string
	// missing is what no test asserts yet; "" if nothing is missing.
	missing string
	// none is why no test is asked for; "" if one is.
	none  string
	tests []string // FOLDER TestName, in order
}

// section is a heading of the list with its rows.
type section struct {
	title string
	rows  []*row
}

// parse reads the list of rows.
func parse(text string) ([]section, error) {
	var out []section
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		title, heading := strings.CutPrefix(line, "## ")
		switch {
		case heading:
			out = append(out, section{title: title})
			continue
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			continue
		}

		fields := strings.Split(line, "|")
		if len(fields) != 3 || len(out) == 0 {
			return nil, fmt.Errorf("rows.txt, line %d: want number | words | what is missing, below a heading", i+1)
		}
		r := &row{number: strings.TrimSpace(fields[0]), words: strings.TrimSpace(fields[1]),
			missing: strings.TrimSpace(fields[2])}
		if why, ok := strings.CutPrefix(r.missing, "none:"); ok {
			r.missing, r.none = "", strings.TrimSpace(why)
		}
		if !number.MatchString(r.number) || r.words == "" || seen[r.number] {
			return nil,
				fmt.Errorf("rows.txt, line %d: a row without words, or a number that is there twice or none: %q", i+1,
					r.number)
		}
		seen[r.number] = true
		last := &out[len(out)-1]
		last.rows = append(last.rows, r)
	}
	return out, nil
}

var (
	number = regexp.MustCompile(`^1\.\d+$`)
	// mark is the sentence of a test's doc comment that names the rows it shows, wherever its lines break.
	mark = regexp.MustCompile(`(?m)(?:^|[.)]\s+)Rows?\s+(1\.\d+(?:,\s+1\.\d+)*)\.(?:\s|$)`)
)

// rowsOf returns the rows that a doc comment names.
func rowsOf(doc string) []string {
	var out []string
	for _, m := range mark.FindAllStringSubmatch(doc, -1) {
		out = append(out, strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || unicode.IsSpace(r) })...)
	}
	return out
}

// test is a test that shows rows.
type test struct {
	name string // folder and function
	rows []string
}

// join gives each row its tests. It returns what is wrong.
func join(list []section, tests []test) []string {
	byNumber := map[string]*row{}
	var problems []string
	for _, s := range list {
		for _, r := range s.rows {
			byNumber[r.number] = r
		}
	}

	for _, t := range tests {
		for _, n := range t.rows {
			r := byNumber[n]
			if r == nil {
				problems = append(problems, fmt.Sprintf("%s names row %s, which is not in rows.txt", t.name, n))
				continue
			}
			r.tests = append(r.tests, t.name)
		}
	}

	for _, s := range list {
		for _, r := range s.rows {
			slices.Sort(r.tests)
			r.tests = slices.Compact(r.tests)
			switch {
			case r.none == "" && len(r.tests) == 0:
				problems = append(problems,
					fmt.Sprintf("row %s (%s) has no test: name it in the doc comment of one", r.number, r.words))
			case r.none != "" && len(r.tests) > 0:
				problems = append(problems,
					fmt.Sprintf("row %s has a test (%s), but rows.txt says none: %s", r.number, r.tests[0], r.none))
			}
		}
	}
	return problems
}

// state is the word for how much of the row tests show.
func (r *row) state() string {
	switch {
	case r.none != "":
		return "–"
	case r.missing != "":
		return "partly"
	}
	return "works"
}

// document is docs/evidence/rows.md.
func document(list []section) string {
	var b strings.Builder
	counts := map[string]int{}
	for _, s := range list {
		for _, r := range s.rows {
			counts[r.state()]++
		}
	}

	b.WriteString("# Rows of the old documents, and the tests that show them\n\n")
	b.WriteString(
		"Written by `tools/go run ./tools/rows -update` from `tools/rows/rows.txt` and from the tests, which name their rows; `make check`\n")
	b.WriteString(
		"fails when a row has lost its last test. A row is what documents about Kubernetes on Windows from 2016 to 2018 name. **works**: tests\n")
	b.WriteString(
		"assert all of it. **partly**: what is missing is said. **–**: no test is asked for. Nothing was seen on a real Windows host.\n\n")
	fmt.Fprintf(&b, "%d rows work, %d partly, %d ask for no test.\n", counts["works"], counts["partly"], counts["–"])

	for _, s := range list {
		fmt.Fprintf(&b, "\n## %s\n| row | what has to work | state | tests |\n|---|---|---|---|\n", s.title)
		for _, r := range s.rows {
			state := r.state()
			if why := cmp.Or(r.missing, r.none); why != "" {
				state += ": " + why
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.number, r.words, state, tests(r.tests))
		}
	}
	return b.String()
}

// tests prints the tests of a row, each folder once.
func tests(list []string) string {
	var parts []string
	last := ""
	for _, t := range list {
		folder, name, _ := strings.Cut(t, " ")
		if folder == last {
			parts[len(parts)-1] += ", " + name
			continue
		}
		last = folder
		parts = append(parts, "`"+folder+"` "+name)
	}
	return strings.Join(parts, "; ")
}
