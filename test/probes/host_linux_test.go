package probes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/check"
)

// TestCheckOnEmulatedHost runs `porthole check` under Wine on a host of its own: it prints what that host does, which
// our programs stand, and leaves nothing behind.
func TestCheckOnEmulatedHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces and mounts need root")
	}
	program, err := filepath.Abs("../../bin/porthole")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{program, "../../bin/windows/porthole.exe",
		"../../bin/windows/dll/computenetwork.dll"} {
		if _, err := os.Stat(part); err != nil {
			t.Skipf("%s is not built: `make build`", part)
		}
	}

	dir := filepath.Join(t.TempDir(), "state")
	const name = "tcheck"
	run(t, program, "host", "create", "--dir", dir, "--runtime", "none", name)
	t.Cleanup(func() { run(t, program, "host", "delete", "--dir", dir, name) })

	out, errs, code := run(t, program, "check", "--dir", dir, "--host", name, "--probe", "hns", "--allow-changes", "-o",
		"json")
	var got struct {
		Findings []check.Finding
		Reports  []check.Report
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
	}
	if code > 1 || len(got.Reports) != 1 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, f := range got.Findings {
		if f.Outcome == check.Differs {
			t.Errorf("the emulated host differs from what we assume: %s = %s %s", f.Line, f.Value, f.Error)
		}
	}
	for line, want := range map[string]string{
		"hns.version": "13.3", "namespaces.types": "HostDefault", "network.unknown": "0x490",
		"balancer.same-frontend": "0xb7",
		"network.prefix":         "same", "reach.plain": "yes", "network.delete": "ok",
	} {
		if l, _ := got.Reports[0].Get(line); l.Value != want {
			t.Errorf("%s: %s, want %s", line, l, want)
		}
	}

	dump, _, _ := run(t, program, "host", "hns", "--dir", dir, name, "dump")
	if strings.Contains(dump, "porthole-check") {
		t.Errorf("left in HNS:\n%s", dump)
	}
}

func run(t *testing.T, program string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("porthole %v: %v", args, err)
	}
	if err != nil && args[0] == "host" {
		t.Fatalf("porthole %v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
