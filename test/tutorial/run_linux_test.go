package tutorial

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/layout"
)

// perCommand bounds one command. The longest is `porthole up` with empty caches.
const perCommand = 8 * time.Minute

// TestTutorial runs the documents as a user does, on the cluster in the default state folder.
// Rows 1.81, 1.122.
func TestTutorial(t *testing.T) {
	if os.Getenv("PORTHOLE_TUTORIAL") == "" {
		t.Skip("takes minutes, and needs the default state folder: PORTHOLE_TUTORIAL=1, or `make test-tutorial`")
	}
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(layout.DefaultDir, "cluster.json")); err == nil {
		t.Fatalf("there is a cluster in %s: run `make down` first", layout.DefaultDir)
	}

	for _, name := range documents {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			list, err := parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			s := newShell(t, bin)
			defer s.tidy(t, bin)
			for _, c := range list {
				start := time.Now()
				out, err := s.run(c.text)
				t.Logf("line %d: %s (%.1f s)\n%s", c.line, c.text, time.Since(start).Seconds(), out)
				if err != nil {
					t.Fatalf("line %d: %s: %v", c.line, c.text, err)
				}
				if m := missing(c.want, out); m != "" {
					t.Errorf("line %d: %s: the output has no line %q", c.line, c.text, m)
				}
			}
		})
	}
}

// shell is a shell that carries out one command after the other, so that later ones know the variables of earlier ones.
type shell struct {
	in    io.Writer
	lines chan string
}

func newShell(t *testing.T, bin string) *shell {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outEnd := io.Pipe()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = outEnd, outEnd, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	s := &shell{in: in, lines: make(chan string, 10000)}
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		outEnd.Close()
	})
	return s
}

// mark begins the line that the shell prints behind each command, with its exit code.
const mark = "-- exit code "

// run carries out a command and returns what it prints. An exit code that is not 0 is an error.
func (s *shell) run(text string) (out string, err error) {
	if _, err := fmt.Fprintf(s.in, "{\n%s\n} </dev/null\ncode=$?; echo; echo '%s'$code\n", text, mark); err != nil {
		return "", fmt.Errorf("the shell has ended: %w", err)
	}

	limit := time.NewTimer(perCommand)
	defer limit.Stop()
	var all strings.Builder
	for {
		select {
		case line, open := <-s.lines:
			if !open {
				return all.String(), fmt.Errorf("the shell has ended")
			}
			code, found := strings.CutPrefix(line, mark)
			if found && code != "0" {
				return all.String(), fmt.Errorf("exit code %s", code)
			}
			if found {
				return all.String(), nil
			}
			fmt.Fprintln(&all, line)
		case <-limit.C:
			return all.String(), fmt.Errorf("no end after %v", perCommand)
		}
	}
}

// tidy removes what a document that stopped in the middle has left. One that reached its end has left nothing.
func (s *shell) tidy(t *testing.T, bin string) {
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{{"host", "delete", "win07"}, {"down"}} {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		out, err := exec.CommandContext(ctx, filepath.Join(bin, "porthole"), args...).CombinedOutput()
		cancel()
		t.Logf("porthole %v: %v\n%s", args, err, out)
	}
}

// TestShell: a command that fails is an error, and later commands know the variables of earlier ones.
func TestShell(t *testing.T) {
	s := newShell(t, t.TempDir())
	if out, err := s.run("A=1; echo -n first"); err != nil || out != "first\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := s.run("cat <<'EOF'\n$A\nEOF\necho $A; false"); err == nil || err.Error() != "exit code 1" ||
		out != "$A\n1\n\n" {
		t.Errorf("%q, %v", out, err)
	}
}
