package reference

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli"
	"porthole.dev/porthole/join/step"
)

// TestExitCodes: the page of exit codes has what the comment of program.Run says, the outcomes of join and its kin,
// and what the help of commands says.
func TestExitCodes(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Exit codes\n\n" + written("the sources and the help of the commands") +
		"Every command ends with one of these, unless the list of its own below says otherwise:\n\n| code | meaning |\n|---|---|\n")
	for _, pair := range strings.Split(general(t), ", ") {
		code, meaning, _ := strings.Cut(pair, " ")
		fmt.Fprintf(&b, "| %s | %s |\n", code, meaning)
	}
	b.WriteString("\nRefused means that nothing was changed: the message names the cure.\n\n## Outcomes of join, leave, upgrade and rollback\n\n" +
		"`-o json` has the word as `outcome`.\n\n| outcome | code | meaning |\n|---|---|---|\n")
	for _, o := range outcomes(t) {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", o.value, step.Outcome(o.value).ExitCode(), cell(o.comment))
	}

	b.WriteString("\n## Commands with codes of their own\n\n| command | codes |\n|---|---|\n")
	rows := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		for _, paragraph := range strings.Split(c.Long, "\n\n") {
			if m := ownCodes.FindStringSubmatch(strings.Join(strings.Fields(paragraph), " ")); m != nil {
				fmt.Fprintf(&b, "| `%s` | %s |\n", c.CommandPath(), cell(sentence(m[1])))
				rows++
			}
		}
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	visit(cli.Commands())
	if rows < 5 {
		t.Errorf("the help of %d commands has codes, want more", rows)
	}
	page(t, "reference/exit-codes.md", b.String())
}

// ownCodes matches what a command's help says of its codes.
var ownCodes = regexp.MustCompile(`Exit codes?:? (.*)`)

// general returns the codes in the comment of program.Run: "0 done, 1 failed".
func general(t *testing.T) string {
	t.Helper()
	for _, s := range sources(t, "cli/program") {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Run" && f.Recv == nil {
				if m := regexp.MustCompile(`the exit code: ([^.]*)\.`).FindStringSubmatch(strings.Join(strings.Fields(f.Doc.Text()), " ")); m != nil {
					return m[1]
				}
			}
		}
	}
	t.Fatal("the comment of program.Run has no exit codes")
	return ""
}

// outcomes returns the constants of step.Outcome in their order.
func outcomes(t *testing.T) (list []constant) {
	t.Helper()
	for _, s := range sources(t, "join/step") {
		for _, d := range s.file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok || named(v.Type) != "Outcome" || len(v.Values) != 1 {
					continue
				}
				if text, ok := literal(v.Values[0]); ok {
					list = append(list, constant{text, comment(v.Doc, v.Comment)})
				}
			}
		}
	}
	return list
}
