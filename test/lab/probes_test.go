package lab

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/check"
)

// TestProbes: the programs that ask a machine and its container runtime on real Windows answer all their questions on
// a node of the cluster, by its named pipe and with pods of their own. They leave nothing behind, and say what our
// programs assume.
func TestProbes(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "../probes/probe-host",
		"../probes/probe-runtime")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	ask := func(args ...string) (r check.Report) {
		t.Helper()
		args[0] = filepath.Join(bin, args[0])
		out, err := command(3*time.Minute, porthole,
			append([]string{"host", "run", "--dir", dir, "win01", "--"}, args...)...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &r)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return r
	}
	reports := []check.Report{
		ask("probe-host.exe", "--allow-changes"),
		ask("probe-runtime.exe", "--allow-changes", "--image", "porthole/testapp:1"),
	}

	for _, f := range check.Compare(check.Facts(), reports) {
		if f.Probe != "hns" && f.Outcome != check.AsAssumed {
			t.Errorf("%s %s: %s %s, want %s", f.Line, f.Outcome, f.Value, f.Error, f.Assume)
		}
	}
	want := map[string]string{"link.folder": "ok", "link.read": "ok", "link.replace": "ok", "file.rename-open": "ok",
		"file.delete-open": "ok",
		"address.default":  "10.99.0.21", "exit.code": "300", "hostprocess.container-only": "refused",
		"log.rename": "ok"}
	for _, r := range reports {
		for _, l := range r.Lines {
			if l.Millis > 500 {
				t.Logf("%s took %d ms", l, l.Millis)
			}
			if w, ok := want[l.Name]; ok && l.Value != w {
				t.Errorf("%s, want %s", l, w)
			}
			delete(want, l.Name)
			if addr, err := netip.ParseAddr(l.Value); l.Name == "sandbox.address" &&
				(err != nil || !netip.MustParsePrefix("10.244.0.0/16").Contains(addr)) {
				t.Errorf("%s, want an address of the pods", l)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("these were not asked: %v", want)
	}

	if out, err := command(time.Minute, porthole, "host", "ctr", "--dir", dir, "win01", "containers", "-o",
		"json"); err != nil || strings.Contains(out, "porthole-check") {
		t.Errorf("left in the runtime: %v\n%s", err, out)
	}
}
