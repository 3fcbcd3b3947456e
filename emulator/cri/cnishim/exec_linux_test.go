package cnishim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/wine"
)

// TestSilentPlugin lets a plugin fail without a word, with an answer, and with words on standard error only: DEL, and no other command, is
// tried once more if there was no answer, and the last error says what was seen.
func TestSilentPlugin(t *testing.T) {
	for _, tc := range []struct {
		name, command, first, second string // what a shell does in place of the plugin
		runs                         int
		want                         string // part of the error; empty: success
	}{
		{"DEL fails once", "DEL", "exit 1", "exit 0", 2, ""},
		{"DEL fails twice", "DEL", "exit 1", "exit 1", 2, "exit status 1, without an answer"},
		{"Wine says why", "DEL", "echo 0024:err:virtual:map >&2; exit 1", "echo 0024:err:virtual:map >&2; exit 1", 2, "(0024:err:virtual:map), without an answer"},
		{"DEL answers", "DEL", `echo '{"code":7}'; exit 1`, "exit 0", 1, `exit status 1: {"code":7}`},
		{"ADD", "ADD", "exit 1", "exit 0", 1, "exit status 1, without an answer"},
		{"success says nothing", "DEL", "exit 0", "exit 1", 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			count := filepath.Join(dir, "count")
			script := "#!/bin/sh\necho run >> " + count + "\nif [ $(wc -l < " + count + ") = 1 ]; then " + tc.first + "; fi\n" + tc.second + "\n"
			fakeWine(t, dir, script, "p")

			_, err := Call{HostDir: dir, Env: map[string]string{"CNI_COMMAND": tc.command}, Timeout: time.Minute}.exec(context.Background(), plugin{kind: "p"}, "", nil)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			runs, err := os.ReadFile(count)
			if err != nil || strings.Count(string(runs), "\n") != tc.runs {
				t.Errorf("it ran %q times (%v), want %d", runs, err, tc.runs)
			}
		})
	}
}

// TestStatusAndGC has plugins write down what they are called with: they get STATUS and GC if the configuration's version knows these
// commands, GC with containerd's list of attachments.
func TestStatusAndGC(t *testing.T) {
	for _, tc := range []struct {
		command, version, input string
		fails                   bool
		want                    []string // parts of what the plugins got
	}{
		{"STATUS", "1.1.0", "", false, []string{"STATUS", `"name":"n"`, `"type":"p"`, `"type":"q"`}},
		{"STATUS", "1.1.0", "", true, []string{"STATUS", `"type":"p"`}},
		{"STATUS", "1.0.0", "", true, nil},
		{"GC", "1.1.0", `{"cni.dev/valid-attachments":[{"containerID":"c","ifname":"eth0"}]}`, false, []string{"GC", `"cni.dev/valid-attachments":[{"containerID":"c"`}},
		{"GC", "0.4.0", `{}`, true, nil},
	} {
		t.Run(tc.command+" "+tc.version, func(t *testing.T) {
			dir := t.TempDir()
			calls := filepath.Join(dir, "calls")
			script := "#!/bin/sh\necho $CNI_COMMAND >> " + calls + "; cat >> " + calls + "\n"
			if tc.fails {
				script += `echo '{"code":50,"msg":"not now"}'; exit 1` + "\n"
			}
			fakeWine(t, dir, script, "p", "q")
			conf := filepath.Join(dir, "prefix", "drive_c", "etc", "cni", "net.d", "1.conflist")
			if err := os.MkdirAll(filepath.Dir(conf), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(conf, []byte(`{"cniVersion":"`+tc.version+`","name":"n","plugins":[{"type":"p"},{"type":"q"}]}`), 0o644); err != nil {
				t.Fatal(err)
			}

			var answer strings.Builder
			err := Run(context.Background(), Call{HostDir: dir, Env: map[string]string{"CNI_COMMAND": tc.command}, Stdin: []byte(tc.input), Stdout: &answer})
			asked := tc.want != nil
			if (err != nil) != (asked && tc.fails) || err != nil && !strings.Contains(answer.String(), `"code":50`) {
				t.Errorf("error %v, answer %q", err, answer.String())
			}
			got, _ := os.ReadFile(calls) // there is none if nobody was called
			for _, want := range tc.want {
				if !strings.Contains(string(got), want) {
					t.Errorf("plugins got %s, want %s", got, want)
				}
			}
			if !asked && len(got) > 0 || tc.fails && strings.Contains(string(got), `"type":"q"`) {
				t.Errorf("plugins got %s", got)
			}
		})
	}
}

// fakeWine puts a shell script in place of Wine's loader, and programs of these names where the host has its plugins.
func fakeWine(t *testing.T, dir, script string, plugins ...string) {
	t.Helper()
	loader, bin := filepath.Join(dir, "wine64"), filepath.Join(dir, "prefix", "drive_c", "opt", "cni", "bin")
	if err := errors.Join(os.WriteFile(loader, []byte(script), 0o755), os.MkdirAll(bin, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range plugins {
		if err := os.WriteFile(filepath.Join(bin, name+".exe"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	installed := wine.Debian
	wine.Debian = wine.Tools{Loader: loader, Server: "/bin/true"}
	t.Cleanup(func() { wine.Debian = installed })
}
