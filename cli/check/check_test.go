package check

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/check"
	"porthole.dev/porthole/cli/program"
)

// TestFrom compares reports of probe programs: the exit code says whether something differs.
func TestFrom(t *testing.T) {
	write := func(name string, lines ...check.Line) string {
		file := filepath.Join(t.TempDir(), name)
		data, err := json.Marshal(check.Report{Probe: "hns", Release: "10.0.20348.1", Changed: true, Lines: lines})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good.json", check.Line{Name: "hns.version", Value: "13.3"})
	bad := write("bad.json", check.Line{Name: "hns.version", Value: "9.1"},
		check.Line{Name: "balancer.same-frontend", Value: "0x5", Error: "denied"})

	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"as assumed":     {[]string{"--from", good}, 0, "1 as assumed, 0 differ"},
		"differs":        {[]string{"--from", bad}, 1, "this host: balancer.same-frontend 0x5 (denied)"},
		"a later counts": {[]string{"--from", bad + "," + good, "--all"}, 1, "as assumed:  hns.version  13.3"},
		"json":           {[]string{"--from", bad, "-o", "json"}, 1, `"outcome": "differs"`},
		"no file":        {[]string{"--from", "nosuch.json"}, 2, "nosuch.json"},
		"unknown probe":  {[]string{"--probe", "disk"}, 2, "known are host, hns, runtime"},
		"mends of none":  {[]string{"--probe", "mends"}, 2, "name the host by --host"},
		"leave alone":    {[]string{"--leave"}, 2, "--allow-changes"},
		"unknown output": {[]string{"-o", "yaml"}, 2, "text and json are known"},
	} {
		t.Run(name, func(t *testing.T) {
			root := program.Root(Command())
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetErr(&out)
			code := program.Run(root, append([]string{"check"}, tc.args...)...)
			if code != tc.code || !strings.Contains(out.String(), tc.want) {
				t.Errorf("exit code %d, want %d; output lacks %q:\n%s", code, tc.code, tc.want, out.String())
			}
		})
	}
}
