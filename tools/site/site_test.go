package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocuments: the site of this repository can be made: no link leads nowhere, and each document of docs/ is listed.
func TestDocuments(t *testing.T) {
	out := filepath.Join(t.TempDir(), "docs")
	if err := run("../..", out); err != nil {
		t.Fatal(err)
	}
	links(t, out)
}

// target matches what a page of the site refers to.
var target = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// links follows every reference of each page below out.
func links(t *testing.T, out string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		for _, m := range target.FindAllStringSubmatch(string(page), -1) {
			name, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(name, ":") {
				continue
			}
			seen++

			file := path
			if name != "" {
				file = filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
			}
			other, err := os.ReadFile(file)
			if err != nil || anchor != "" && !strings.Contains(string(other), `id="`+anchor+`"`) {
				t.Errorf("%s: %s leads nowhere", path, m[1])
			}
		}
		return nil
	})
	if err != nil || seen < 1000 {
		t.Errorf("%d links, %v", seen, err)
	}
}

// TestProblems: what is wrong with documents is named.
func TestProblems(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"docs/contents.yaml": "- title: Use\n  pages: [docs/a.md]\n",
		"docs/README.md":     "# Home\n[a](a.md)\n",
		"docs/a.md":          "# A\n## One thing\n[one](#one-thing) [two](#two) [three](b.md) [four](../main.go) [b](README.md#none) ![p](p.svg)\n",
		"docs/lost.md":       "# Lost\n",
		"main.go":            "package main\n",
		"sub/README.md":      "[up](../docs/gone.md) [out](../../other.md)\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.render(); err == nil {
		t.Error("a picture that is not there was rendered")
	}

	all := errors.Join(s.problems()...).Error()
	for _, want := range []string{
		"docs/a.md: #two leads nowhere", "docs/a.md: b.md leads nowhere", "docs/a.md: README.md#none leads nowhere",
		"docs/a.md: p.svg leads nowhere", "docs/lost.md is not in docs/contents.yaml",
		"sub/README.md: ../docs/gone.md leads nowhere", "sub/README.md: ../../other.md is outside of the repository",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if n := strings.Count(all, "\n") + 1; n != 7 {
		t.Errorf("%d problems, want 7:\n%s", n, all)
	}
}

// TestAnchors: headings have the anchors that GitHub gives them.
func TestAnchors(t *testing.T) {
	p := parse("a.md", []byte("# `porthole up` and `down`\n## What's new, in 1.2?\n## Again\n## Again\n### under_score – dash\n"))
	var have []string
	for _, h := range p.headings {
		have = append(have, h.id)
	}
	if want := "porthole-up-and-down whats-new-in-12 again again-1 under_score--dash"; strings.Join(have, " ") != want {
		t.Errorf("anchors %q, want %q", have, want)
	}
}
