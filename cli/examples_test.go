package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExamples: each command that --help lists has an example, each line of an example is one that the command takes,
// and at least one is of the command itself or of one below it.
func TestExamples(t *testing.T) {
	seen := 0
	var visit func(path []string)
	visit = func(path []string) {
		c, _, err := Commands().Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if c.Hidden {
			return
		}

		own := false
		for _, line := range strings.Split(c.Example, "\n") {
			for _, words := range calls(line) {
				used, err := parse(words)
				if err != nil {
					t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
				}
				own = own || strings.HasPrefix(used+" ", c.CommandPath()+" ")
			}
		}
		if !own {
			t.Errorf("%s: --help has no example of it", c.CommandPath())
		}
		seen++
		for _, below := range c.Commands() {
			visit(append(slices.Clone(path), below.Name()))
		}
	}
	visit(nil)
	if want := 18 + len(localCommands()); seen < want {
		t.Errorf("%d commands were seen, want %d", seen, want)
	}
}

// parse gives the words behind porthole to the command that they name, as a run does, but does not run it. It returns
// the command's path.
func parse(words []string) (path string, err error) {
	// Flags are kept in the commands: each line gets new ones.
	c, rest, err := Commands().Find(words)
	if err != nil {
		return "", err
	}
	if c.DisableFlagParsing {
		return c.CommandPath(), nil
	}
	if err := c.ParseFlags(rest); err != nil {
		return c.CommandPath(), err
	}
	if !c.Runnable() {
		return c.CommandPath(), fmt.Errorf("%s runs nothing", c.CommandPath())
	}
	return c.CommandPath(), c.ValidateArgs(c.Flags().Args())
}

// calls returns the calls of porthole in a line for a shell, each without the word porthole. A kubelet or kube-proxy
// that is called by its own name is the command of that name.
func calls(line string) (found [][]string) {
	for _, words := range commands(line) {
		if len(words) == 0 {
			continue
		}
		name := words[0][strings.LastIndexAny(words[0], `/\`)+1:]
		switch name = strings.TrimSuffix(name, ".exe"); name {
		case "porthole":
			found = append(found, words[1:])
		case "kubelet", "kube-proxy":
			found = append(found, append([]string{name}, words[1:]...))
		}
	}
	return found
}

// commands splits a line into the commands of a pipe or list, and these into words. It knows quotes, comments and
// redirections, which end the words of a command.
func commands(line string) (list [][]string) {
	var words []string
	var word strings.Builder
	quote, inWord, skip := rune(0), false, false
	end := func() {
		if inWord && !skip {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}

	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			return append(list, words)
		case strings.ContainsRune("|;&()", r):
			end()
			list, words, skip = append(list, words), nil, false
		case r == '<' || r == '>':
			end()
			skip = true
		case r == ' ' || r == '\t':
			end()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}

	end()
	return append(list, words)
}

// TestDocuments: the commands in the documents for users are ones that the program takes.
func TestDocuments(t *testing.T) {
	seen := 0
	pages, err := filepath.Glob("../docs/use/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages for users, %v", len(pages), err)
	}
	for _, name := range append(pages, "../README.md", "../tools/release/linux.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code := strings.HasSuffix(name, "linux.md") // which indents its commands
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if !code || strings.Contains(line, "${") { // a command line that a shell completes
				continue
			}

			line = strings.TrimPrefix(strings.TrimPrefix(line, "    "), "# ")
			if strings.HasPrefix(line, " ") { // a drawing
				continue
			}
			for _, words := range calls(line) {
				if _, err := parse(words); err != nil {
					t.Errorf("%s: %q: %v", name, line, err)
				}
				seen++
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d commands were seen", seen)
	}
}
