package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// problems returns what is wrong with the documents: links and anchors that lead nowhere, and documents of docs/ that
// no reader of the site can find. Call it after render, which notes the links.
func (s *site) problems() (list []error) {
	for _, l := range s.links {
		name, anchor := resolve(l.from, l.target)
		if strings.HasPrefix(name, "..") {
			list = append(list, fmt.Errorf("%s: %s is outside of the repository", l.from, l.target))
			continue
		}
		if _, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(name))); err != nil {
			list = append(list, fmt.Errorf("%s: %s leads nowhere: there is no %s", l.from, l.target, name))
			continue
		}
		if p := s.documents[name]; p != nil && anchor != "" && !p.has(anchor[1:]) {
			list = append(list, fmt.Errorf("%s: %s leads nowhere: %s has no such heading", l.from, l.target, name))
		}
	}

	for name, p := range s.documents {
		if p.url == "" && strings.HasPrefix(name, "docs/") {
			list = append(list, fmt.Errorf("%s is not in %s", name, contents))
		}
		if p.url != "" && p.title == name {
			list = append(list, fmt.Errorf("%s has no heading of the first level, by which it could be listed", name))
		}
	}

	slices.SortFunc(list, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return list
}
