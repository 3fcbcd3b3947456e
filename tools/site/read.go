package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// contents is the list of the site's pages, below root.
const contents = "docs/contents.yaml"

// home is the document that is the site's first page. It is listed nowhere.
const home = "docs/README.md"

// section is a heading of the navigation. Its pages are files below root, or patterns of path.Match.
type section struct {
	Title string
	Pages []string
	// Folded sections show their pages only while one of them is read.
	Folded bool

	pages []*page
}

// site is what the list and its documents say.
type site struct {
	root     string
	sections []section
	// documents are all documents of the repository, by name; those without a url are not part of the site.
	documents map[string]*page
	// pictures that pages show, below root.
	pictures map[string]bool
	links    []link
}

// link is one that a document has: its target as it is written there.
type link struct{ from, target string }

// read reads the list, and all Markdown documents below root.
func read(root string) (*site, error) {
	s := &site{root: root, documents: map[string]*page{}, pictures: map[string]bool{}}
	data, err := os.ReadFile(filepath.Join(root, contents))
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(data, &s.sections); err != nil {
		return nil, fmt.Errorf("%s: %w", contents, err)
	}
	if err := s.readDocuments(); err != nil {
		return nil, err
	}

	if err := s.list(&section{Pages: []string{home}}); err != nil {
		return nil, err
	}
	for i := range s.sections {
		if err := s.list(&s.sections[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readDocuments parses the Markdown documents of the repository. What is made or fetched (bin, node_modules) is not
// looked for.
func (s *site) readDocuments() error {
	skip := []string{"bin", "dist", "node_modules", "testdata"}
	return filepath.WalkDir(s.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != s.root && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skip, d.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".md") {
			return nil
		}

		rel, err := filepath.Rel(s.root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p := parse(filepath.ToSlash(rel), text)
		s.documents[p.file] = p
		return nil
	})
}

// list gives the pages of one section their addresses.
func (s *site) list(sec *section) error {
	for _, pattern := range sec.Pages {
		var names []string
		for name := range s.documents {
			if ok, err := path.Match(pattern, name); err != nil {
				return fmt.Errorf("%s: %s: %w", contents, pattern, err)
			} else if ok {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return fmt.Errorf("%s: %s names no document", contents, pattern)
		}

		slices.Sort(names)
		for _, name := range names {
			p := s.documents[name]
			if p.url != "" {
				continue // it is listed by itself, before the pattern
			}
			p.url, p.section = address(name), sec.Title
			sec.pages = append(sec.pages, p)
		}
	}
	return nil
}

// address returns the address of a document in the site: docs/use/join.md is use/join.html.
func address(name string) string {
	if name == home {
		return "index.html"
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(name), "docs/"), ".md") + ".html"
}
