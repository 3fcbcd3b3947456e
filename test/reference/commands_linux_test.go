package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli"
)

// TestCommands: there is one page for each command that --help lists, with those below it, and no other.
func TestCommands(t *testing.T) {
	root := cli.Commands()
	var index strings.Builder
	index.WriteString("# Commands\n\n" + written("the commands themselves") +
		"All commands of `porthole`, as `porthole COMMAND --help` prints them. `porthole.exe` of Windows nodes has those that the last column names.\n\n" +
		"| command | what it does | where |\n|---|---|---|\n")
	pages := map[string]bool{"README.md": true}
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		name := c.Name() + ".md"
		pages[name] = true
		page(t, "reference/commands/"+name, commandPage(c))
		fmt.Fprintf(&index, "| [`%s`](%s) | %s | %s |\n", c.Name(), name, cell(sentence(c.Short)), systems(t, c.Name()))
	}
	page(t, "reference/commands/README.md", index.String())

	entries, err := os.ReadDir(filepath.Join(repository, "docs/reference/commands"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !pages[e.Name()] {
			t.Errorf("docs/reference/commands/%s is of no command: remove it", e.Name())
		}
	}
}

// systems returns on which systems a command is there. Those of commands_linux.go are on Linux only, but for status.
func systems(t *testing.T, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(repository, "cli/commands_linux.go"))
	if err != nil {
		t.Fatal(err)
	}
	if name != "status" && regexp.MustCompile(`\b`+name+`\.Command\(\)`).Match(source) {
		return "Linux"
	}
	return "Linux, Windows"
}

// commandPage is the page of a command of the first level.
func commandPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# porthole %s\n\n%s", c.Name(), written("the command itself"))
	describe(&b, c)
	for _, below := range c.Commands() {
		below_(&b, below)
	}
	return b.String()
}

// below_ writes a command below another one, and those below it.
func below_(b *strings.Builder, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
	describe(b, c)
	for _, next := range c.Commands() {
		below_(b, next)
	}
}

// describe writes what a command does, how it is called, its examples and its flags.
func describe(b *strings.Builder, c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = sentence(c.Short)
	}
	b.WriteString(prose(text) + "\n")
	if c.Runnable() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(c.Example))
	}
	flags(b, c.NonInheritedFlags())
}

// flags writes a table of flags.
func flags(b *strings.Builder, fs *pflag.FlagSet) {
	var rows strings.Builder
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "`--" + f.Name
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if kind != "" {
			name += " " + kind
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			value = "`" + strings.ReplaceAll(f.DefValue, "\n", " ") + "`"
		}
		fmt.Fprintf(&rows, "| %s` | %s | %s |\n", name, cell(usage), value)
	})
	if rows.Len() > 0 {
		b.WriteString("\n| flag | meaning | default |\n|---|---|---|\n" + rows.String())
	}
}

// prose returns the text of a command for Markdown: its indented parts, such as tables, stay as they are.
func prose(text string) string {
	var b strings.Builder
	code := false
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
		if indented != code && line != "" {
			b.WriteString("```\n")
			code = indented
		}
		if !code {
			line = strings.NewReplacer("<", "&lt;", "*", "\\*", "_", "\\_").Replace(line)
		}
		b.WriteString(line + "\n")
	}
	if code {
		b.WriteString("```\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// unindent removes the two spaces before each line of examples.
func unindent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n "), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}
