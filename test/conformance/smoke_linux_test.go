package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A few tests of each kind of work that a kubelet does; each takes seconds.
const smoke = `Containers should be able to override|Downward API should provide pod name|ConfigMap updates should be reflected in volume` +
	`|Secrets should be consumable from pods in volume with mappings|EmptyDir volumes should support \(root,0644,default\)` +
	`|Projected downwardAPI should provide container's memory limit|Variable Expansion should allow substituting values in a volume subpath` +
	`|InitContainer .* should invoke init containers on a RestartAlways pod|Pods should be submitted and removed` +
	`|Pods should support remote command execution over websockets|Container Runtime .* should run with the expected status` +
	`|prestop exec hook properly|should be restarted with a exec "cat /tmp/health" liveness probe|Security Context .* uid 65534` +
	`|Job should run a job to completion when tasks sometimes fail and are locally restarted|Networking .* intra-pod communication: http`

// TestSmoke runs these on a cluster with two Linux nodes, which it brings up and removes; 5 minutes at most.
// Row 1.01.
func TestSmoke(t *testing.T) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "conformance", "e2e.test")); err != nil {
		t.Skip(
			"upstream's suite is not built: `make conformance-smoke` builds it (nine minutes of processor time) and runs this test")
	}
	if os.Geteuid() != 0 {
		t.Skip("a cluster needs root")
	}
	o := options{
		bin: bin, dir: "/var/tmp/porthole-smoke", node: "lin", suite: "conformance", focus: smoke,
		labels: "Conformance", parallel: 6, limit: 4 * time.Minute,
		logs: t.TempDir(),
	}
	if err := run(t.Context(), o); err != nil {
		if output, readErr := os.ReadFile(filepath.Join(o.logs, "output.txt")); readErr == nil {
			t.Logf("%s", output[max(0, len(output)-20_000):])
		}
		t.Fatal(err)
	}
}
