package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// asPorthole makes this test's program be porthole: shells call it for what completes a line.
const asPorthole = "PORTHOLE_TEST_IS_PORTHOLE"

func TestMain(m *testing.M) {
	if os.Getenv(asPorthole) != "" {
		os.Exit(Main(append([]string{"porthole"}, os.Args[1:]...)))
	}
	os.Exit(m.Run())
}

// completers are scripts for shells. Each loads what `porthole completion` prints and completes the line $LINE, as the
// key TAB would. The zsh one has a terminal of its own and prints the line after the key; the others print what can
// follow.
var completers = map[string]string{
	"bash": `source /usr/share/bash-completion/bash_completion
source <(porthole completion bash)
read -ra COMP_WORDS <<<"$LINE"; [[ $LINE == *" " ]] && COMP_WORDS+=("")
COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_TYPE=63
compopt() { :; } # bash has it while it completes only
__start_porthole
printf '%s\n' "${COMPREPLY[@]}"`,
	"fish": `porthole completion fish | source
complete -C "$LINE"`,
	"zsh": `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -U compinit; compinit -u -D; source <(porthole completion zsh); shown() { print -r -- "$BUFFER" >'$OUT' }; zle -N shown; bindkey "^T" shown; echo LOAD''ED'
zpty -r shell text '*LOADED*'
zpty -w -n shell "$LINE"$'\t\x14'
repeat 600; do zpty -r -t shell text; [[ -s $OUT ]] && break; sleep 0.1; done
cat $OUT`,
}

// TestShells has the shells themselves complete lines with their script.
func TestShells(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", asPorthole, self)
	if err := os.WriteFile(filepath.Join(path, "porthole"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}

	for shell, script := range completers {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("%s is not installed: `make deps`", shell)
			}
			if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil && shell == "bash" {
				t.Skip("bash-completion is not installed: `make deps`")
			}
			lines := map[string]string{"porthole join --network vx": "vxlan", "porthole join --wait xyz": ""}
			if shell != "zsh" { // each line has a terminal of its own there
				maps.Copy(lines, map[string]string{"porthole comp": "completion",
					"porthole join --wait regi":    "registered",
					"porthole join --discovery-fi": "--discovery-file", "porthole help host ev": "events"})
			}
			for line, want := range lines {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				c := exec.CommandContext(ctx, shell, "-c", script)
				if shell == "bash" {
					c = exec.CommandContext(ctx, shell, "--norc", "-c", script)
				}
				dir := t.TempDir()
				c.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "LINE="+line,
					"OUT="+filepath.Join(dir, "line"), "HOME="+dir, "TERM=dumb", "XDG_CONFIG_HOME="+dir)
				out, err := c.CombinedOutput()
				cancel()
				if err != nil {
					t.Errorf("%q: %v\n%s", line, err, out)
				}
				if got := completed(shell, line, string(out)); got != want {
					t.Errorf("%q: completed by %q, want %q: %q", line, got, want, out)
				}
			}
		})
	}
}

// completed returns the word by which a shell completes a line; "" if it knows none.
func completed(shell, line, out string) string {
	last := line[strings.LastIndex(line, " ")+1:]
	var words []string
	for l := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		if shell == "zsh" {
			l = l[strings.LastIndex(strings.TrimRight(l, " "), " ")+1:]
		}
		word, _, _ := strings.Cut(strings.TrimSpace(l), "\t") // a description follows
		word, _, _ = strings.Cut(word, " ")
		if word != "" && word != last && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}
