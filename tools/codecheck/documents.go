package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// architecture is the document whose names of files are checked. Elsewhere a path is often one of a host or of a made
// folder.
const architecture = "ARCHITECTURE.md"

var (
	// link is one to a file or picture, with its text and target: [text](target).
	link = regexp.MustCompile(`(!?)\[([^\]]*)\]\(([^)\s]+)\)`)
	// quoted is a path of the repository between backquotes. Paths elsewhere begin with a slash, a drive or the D of a
	// state folder.
	quoted = regexp.MustCompile("`([a-z0-9.][a-z0-9._-]*/[a-z0-9._/-]*)`")
)

// documents returns what the architecture's text names and root does not have, and its pictures without a text in
// their place. A tree without that document has no such problem.
func documents(root string) ([]problem, error) {
	text, err := os.ReadFile(filepath.Join(root, architecture))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	var found []problem
	for i, line := range strings.Split(string(text), "\n") {
		report := func(format string, args ...any) {
			found = append(found, problem{architecture, i + 1, kindDocument, fmt.Sprintf(format, args...)})
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			picture := m[1] != ""
			alt := m[2]
			target := m[3]
			if picture && strings.TrimSpace(alt) == "" {
				report("the picture %s has no text in its place: say between the brackets what it shows", target)
			}
			if u, err := url.Parse(target); err == nil && u.Scheme == "" && u.Path != "" && !exists(root, u.Path) {
				report("there is no file %s: name the one that is meant", u.Path)
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if !exists(root, m[1]) {
				report("there is no file %s: name the one that is meant", m[1])
			}
		}
	}
	return found, nil
}

// exists reports whether root has a file or folder of that name, which is separated by slashes.
func exists(root, name string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
	return err == nil
}
