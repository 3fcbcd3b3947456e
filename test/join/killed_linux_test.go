package join

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/join/step"
)

// killed ends join before and after each step that changes something, as a power failure would. The same line goes on
// each time, and at the end the machine is a node, by one certificate request. Then each half of a join is left:
// nothing stays.
func (m follower) killed(cp *machine, line []string, fresh string) {
	program := m.failing()
	cp.kubectl("delete", "node", "lin11", "--ignore-not-found")
	before := len(strings.Fields(cp.kubectl("get", "csr", "-o", "name")))
	points := m.points(line)

	for _, p := range points {
		r := m.runAt(program, p, line...)
		if r.code != killCode && r.code != -1 {
			m.t.Errorf("killed at %s: code %d: %s%s", p, r.code, r.out, r.err)
		}
	}
	r := m.porthole(line...)
	if r.code != 0 {
		m.t.Fatalf("after kills at %d points: code %d: %s%s", len(points), r.code, r.out, r.err)
	}
	cp.ready("lin11")
	if after := len(strings.Fields(cp.kubectl("get", "csr", "-o", "name"))); after != before+1 {
		m.t.Errorf("%d certificate requests were made, want one", after-before)
	}
	if r = m.porthole("leave"); r.code != 0 {
		m.t.Fatalf("leave: code %d: %s%s", r.code, r.out, r.err)
	}
	m.clean(fresh)

	for _, p := range points {
		cp.kubectl("delete", "node", "lin11", "--ignore-not-found")
		m.runAt(program, p, line...)
		if r := m.porthole("leave"); r.code != 0 {
			m.t.Errorf("leave after a kill at %s: code %d: %s%s", p, r.code, r.out, r.err)
		}
		m.clean(fresh)
	}
	m.t.Logf("%d points", len(points))
}

// killCode is what a shell returns for a program that SIGKILL ended; nsenter ends by the same signal itself, which is
// -1.
const killCode = 137

// points are those of the steps that a dry run plans.
func (m follower) points(line []string) (list []string) {
	report, r := m.report(append(with(line, "", ""), "--dry-run")...)
	if report.Outcome != step.Planned {
		m.t.Fatalf("dry run: %s%s", r.out, r.err)
	}
	for _, s := range report.Steps {
		if s.Result == "planned" {
			list = append(list, s.ID+"/before", s.ID+"/after")
		}
	}
	return list
}

// failing builds porthole with its points at which tests end it.
func (m follower) failing() string {
	m.t.Helper()
	program := filepath.Join(state, "failing", "porthole")
	build := exec.Command("go", "build", "-tags=grpcnotrace,failpoint", "-ldflags=-s -w", "-o", program,
		"../../cmd/porthole")
	build.Env = os.Environ()
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("building porthole: %v\n%s", err, out)
	}
	for _, name := range []string{"porthole-routes", "bundle"} { // what lies beside the program
		if err := os.Symlink(filepath.Join(bin, name), filepath.Join(state, "failing", name)); !errors.Is(err,
			fs.ErrExist) {
			must(m.t, err)
		}
	}
	return program
}

func (m follower) runAt(program, point string, args ...string) result {
	m.t.Helper()
	return m.run("env", append([]string{"PORTHOLE_FAILPOINT=" + point, program}, args...)...)
}
