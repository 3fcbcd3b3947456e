package join

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNodeProgram finds programs of a node that run from a folder, also when their file has gone; others of that
// folder do not count.
func TestNodeProgram(t *testing.T) {
	shell, err := os.ReadFile("/bin/bash")
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		file, argument string
		counts         bool
	}{
		{"porthole", "kubelet", true},
		{"porthole", "status", false},
		{"porthole-routes", "run", true},
		{"versions/1/porthole", "kubelet", true},
		{"bash", "kubelet", false},
	} {
		t.Run(c.file+" "+c.argument, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, c.file)
			script := filepath.Join(dir, c.argument)
			for path, data := range map[string][]byte{program: shell, script: []byte("echo runs; read\n")} {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(program, c.argument)
			cmd.Dir = dir
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, len("runs"))); err != nil {
				t.Fatal(err)
			}

			want := ""
			if c.counts {
				want = fmt.Sprintf("process %d of %s", cmd.Process.Pid, program)
			}
			if got := nodeProgram(dir); got != want {
				t.Errorf("found %q, want %q", got, want)
			}
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
			if got := nodeProgram(dir); got != want {
				t.Errorf("without the file: found %q, want %q", got, want)
			}
			in.Close()
			_ = cmd.Wait() // read has found the end of the file
			if got := nodeProgram(dir); got != "" {
				t.Errorf("after its end: found %q", got)
			}
		})
	}
}
