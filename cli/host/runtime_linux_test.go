package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/emulator/cri"
)

// TestRuntimeCommand: flags change what they name and nothing else, and a wrong one changes nothing.
func TestRuntimeCommand(t *testing.T) {
	dir := t.TempDir()
	host := filepath.Join(dir, "hosts", "h1")
	if err := os.MkdirAll(host, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(host, "host.json"), []byte(`{"name": "h1", "os": "windows", "runtime": "light"}`), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		args []string
		want string // of the output, or of the error
		then cri.Profile
	}{
		{nil, "ends of containers are seen at once\nstatistics: of every pod\n", cri.Profile{}},
		{[]string{"--late-ends"}, "seen 5 s after the start at the earliest", cri.Profile{LateEnds: true}},
		{[]string{"--no-stats", "ns/a,ns/b"}, "missing of ns/a, ns/b", cri.Profile{LateEnds: true, NoStats: []string{"ns/a", "ns/b"}}},
		{[]string{"--no-stats", "a"}, "give a pod as namespace/name, or * for all", cri.Profile{LateEnds: true, NoStats: []string{"ns/a", "ns/b"}}},
		{[]string{"--late-ends=false", "-o", "json"}, `"noStats": [`, cri.Profile{NoStats: []string{"ns/a", "ns/b"}}},
		{[]string{"--reset"}, "seen at once", cri.Profile{}},
	} {
		command, out := runtimeCommand(), &bytes.Buffer{}
		command.SetArgs(append([]string{"h1", "--dir", dir}, c.args...))
		command.SetOut(out)
		command.SetErr(out)
		err := command.Execute()
		if got := out.String(); !strings.Contains(got, c.want) {
			t.Errorf("%v: %v, output %q, want %q", c.args, err, got, c.want)
		}
		got, err := cri.ReadProfile(host)
		if err != nil || got.LateEnds != c.then.LateEnds || strings.Join(got.NoStats, " ") != strings.Join(c.then.NoStats, " ") {
			t.Errorf("%v: the profile is %+v, want %+v (%v)", c.args, got, c.then, err)
		}
	}
}
