package main

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is one document.
type page struct {
	file  string // below the repository's root
	url   string // in the site; "" if it is not part of it
	title string
	// section of the navigation; "" is the first page.
	section  string
	source   []byte
	tree     ast.Node
	headings []heading
}

// heading is one that can be linked to.
type heading struct {
	level    int
	id, text string
	// words are the text below it, for the search.
	words string
}

// markdown is GitHub's: the documents are read there too.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// parse reads a document.
func parse(file string, source []byte) *page {
	p := &page{file: file, source: source}
	context := parser.NewContext(parser.WithIDs(&ids{used: map[string]int{}}))
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))

	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			if last := len(p.headings) - 1; last >= 0 {
				p.headings[last].words += " " + words(n, source)
			}
			continue
		}
		id, _ := h.AttributeString("id")
		name, _ := id.([]byte)
		p.headings = append(p.headings, heading{level: h.Level, id: string(name), text: words(n, source)})
		if h.Level == 1 && p.title == "" {
			p.title = words(n, source)
		}
	}
	if p.title == "" {
		p.title = file
	}
	return p
}

// has reports whether a link can lead to the anchor.
func (p *page) has(anchor string) bool {
	for _, h := range p.headings {
		if h.id == anchor {
			return true
		}
	}
	return false
}

// words returns the text of a node, without marks.
func words(n ast.Node, source []byte) string {
	var b bytes.Buffer
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function below returns no error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// labelCells says in each cell of a table of several columns which column it is in: on narrow screens they stand below
// each other.
func labelCells(p *page) {
	// The function below returns no error.
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		table, ok := n.(*extensionast.Table)
		if !ok || !entering || len(table.Alignments) < 3 {
			return ast.WalkContinue, nil
		}
		var names []string
		for cell := table.FirstChild().FirstChild(); cell != nil; cell = cell.NextSibling() {
			names = append(names, words(cell, p.source))
		}
		table.SetAttributeString("data-cards", []byte("yes"))

		for row := table.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
			column := 0
			for cell := row.FirstChild(); cell != nil && column < len(names); cell = cell.NextSibling() {
				cell.SetAttributeString("data-label", []byte(names[column]))
				column++
			}
		}
		return ast.WalkSkipChildren, nil
	})
}

// inBoxes puts each table into a box that moves by itself if the table is wider than the page, as code does. The
// keyboard reaches both.
func inBoxes(body string) string {
	return strings.NewReplacer("<table>", `<div class="table" tabindex="0"><table>`,
		`<table data-cards="yes">`, `<div class="table cards" tabindex="0"><table>`, "</table>", "</table></div>",
		"<pre>", `<pre tabindex="0">`).Replace(body)
}

// ids gives headings the anchors that GitHub gives them.
type ids struct{ used map[string]int }

// Generate returns the anchor of a heading: lower case, spaces are hyphens, other signs are left out; a second one is
// NAME-1.
func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(value))) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	id := b.String()
	n := i.used[id]
	i.used[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put is part of goldmark's interface: an anchor that a document sets itself, which ours do not.
func (i *ids) Put(value []byte) { i.used[string(value)]++ }
