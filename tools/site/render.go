package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

//go:embed page.html style.css search.js
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "page.html"))

// shown is what page.html shows.
type shown struct {
	Title, Section, Top string // Top leads to the site's root: "../"
	Body                template.HTML
	Menu                []menu
	Headings            []entry
}

// menu is a section of the navigation.
type menu struct {
	Title   string
	Folded  bool
	Entries []entry
}

// entry is a link of the navigation.
type entry struct {
	Title, URL string
	Current    bool
}

// found is an entry of the search's index: a heading with what stands below it.
type found struct {
	Page    string `json:"p"`
	Heading string `json:"h"`
	URL     string `json:"u"`
	Text    string `json:"t"`
	Weight  int    `json:"w"`
}

// render returns the files of the site by name, and notes all links of the repository's documents.
func (s *site) render() (map[string][]byte, error) {
	files := map[string][]byte{}
	var index []found
	for _, p := range s.documents {
		s.turnLinks(p)
		labelCells(p)
		if p.url == "" {
			continue
		}
		var body, whole bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.source, p.tree); err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		if err := layout.Execute(&whole, s.shown(p, body.String())); err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		if files[p.url] != nil {
			return nil, fmt.Errorf("two documents are %s: %s and another", p.url, p.file)
		}
		files[p.url] = whole.Bytes()
		index = append(index, s.indexed(p)...)
	}

	data, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	files["search-index.js"] = append(append([]byte("window.searchIndex="), data...), ';')
	for _, name := range []string{"style.css", "search.js"} {
		if files[name], err = assets.ReadFile(name); err != nil {
			return nil, err
		}
	}
	for name := range s.pictures {
		if files[picture(name)], err = os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name))); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// shown returns what the layout shows around the body of a page.
func (s *site) shown(p *page, body string) shown {
	top := strings.Repeat("../", strings.Count(p.url, "/"))
	out := shown{Title: p.title, Section: p.section, Top: top, Body: template.HTML(inBoxes(body))}
	for _, sec := range s.sections {
		m := menu{Title: sec.Title, Folded: sec.Folded && sec.Title != p.section}
		for _, q := range sec.pages {
			m.Entries = append(m.Entries, entry{q.title, relative(p.url, q.url), p == q})
		}
		out.Menu = append(out.Menu, m)
	}
	for _, h := range p.headings {
		if h.level == 2 {
			out.Headings = append(out.Headings, entry{Title: h.text, URL: "#" + h.id})
		}
	}
	return out
}

// indexed returns what the search finds of a page. Sections that are listed first come first.
func (s *site) indexed(p *page) (list []found) {
	weight := len(s.sections)
	for i, sec := range s.sections {
		if sec.Title == p.section {
			weight -= i
		}
	}
	for _, h := range p.headings {
		url := p.url
		if h.level > 1 {
			url += "#" + h.id
		}
		list = append(list, found{p.title, h.text, url, h.words, weight})
	}
	return list
}

// turnLinks makes links to documents of the site links of the site, and notes each link. A link to another file of the
// repository becomes the file's name: the site does not have it.
func (s *site) turnLinks(p *page) {
	var outside []*ast.Link
	// The function below returns no error.
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			target := string(n.Destination)
			if external(target) {
				break
			}
			s.links = append(s.links, link{p.file, target})
			name, anchor := resolve(p.file, target)
			if q := s.documents[name]; q != nil && q.url != "" && p.url != "" {
				n.Destination = []byte(relative(p.url, q.url) + anchor)
			} else {
				outside = append(outside, n)
			}
		case *ast.Image:
			target := string(n.Destination)
			s.links = append(s.links, link{p.file, target})
			if name, _ := resolve(p.file, target); p.url != "" {
				s.pictures[name] = true
				n.Destination = []byte(relative(p.url, picture(name)))
			}
		}
		return ast.WalkContinue, nil
	})

	for _, n := range outside {
		name, _ := resolve(p.file, string(n.Destination))
		mark := ast.NewEmphasis(1)
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			mark.AppendChild(mark, c)
		}
		mark.SetAttributeString("title", []byte(name+" in the repository"))
		n.Parent().ReplaceChild(n.Parent(), n, mark)
	}
}

// external reports whether a target is no file of the repository.
func external(target string) bool {
	return strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:")
}

// resolve returns the file that a link of a document names, and the link's anchor with its #.
func resolve(from, target string) (name, anchor string) {
	name, anchor, cut := strings.Cut(target, "#")
	if cut {
		anchor = "#" + anchor
	}
	if name == "" {
		return from, anchor
	}
	return path.Join(path.Dir(from), name), anchor
}

// picture returns the place of a picture in the site.
func picture(name string) string { return "pictures/" + path.Base(name) }

// relative returns the way from one page of the site to another file of it.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}
