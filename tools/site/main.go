// Command site makes a site of the Markdown documents that docs/contents.yaml lists: pages that need no server and
// nothing from elsewhere, with a search. It fails if a link or an anchor leads nowhere, and if a document of docs/ is
// not in the list. ADR 19 says why it is a program of ours.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the repository")
	out := flag.String("out", "bin/docs", "folder of the site; what is in it is replaced")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	where, err := filepath.Abs(filepath.Join(*out, "index.html"))
	if err != nil {
		where = filepath.Join(*out, "index.html")
	}
	fmt.Println("open file://" + where)
}

// run makes the site of the repository below root.
func run(root, out string) error {
	s, err := read(root)
	if err != nil {
		return err
	}
	files, err := s.render()
	if err != nil {
		return err
	}
	if err := errors.Join(s.problems()...); err != nil {
		return err
	}
	return write(out, files)
}

// write replaces the folder out by files, by name.
func write(out string, files map[string][]byte) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
