package join

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// version makes a folder with a program of another version. Bytes behind the end of a program change its hash, and
// nothing else.
func (m follower) version(name, content string) string {
	m.t.Helper()
	dir := filepath.Join(state, name)
	must(m.t, os.MkdirAll(dir, 0o755))
	if content == "" {
		data, err := os.ReadFile(filepath.Join(bin, "porthole"))
		must(m.t, err)
		content = string(data) + name
	}
	must(m.t, os.WriteFile(filepath.Join(dir, "porthole"), []byte(content), 0o755))
	routes, err := os.ReadFile(filepath.Join(bin, "porthole-routes"))
	must(m.t, err)
	must(m.t, os.WriteFile(filepath.Join(dir, "porthole-routes"), routes, 0o755))
	return dir
}

// exchange runs upgrade or rollback.
func (m follower) exchange(code int, outcome step.Outcome, args ...string) (report step.Report) {
	m.t.Helper()
	if args[0] == "upgrade" {
		args = append(args, "--skip-sums") // built, and not of an archive
	}
	r := m.porthole(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != code || report.Outcome != outcome {
		m.t.Fatalf("%v: code %d, want %d and %s: %v\n%s%s\nsupervisor:\n%s", args, r.code, code, outcome, err, r.out,
			r.err, tail(m.log("supervisor")))
	}
	return report
}

// runs returns which version the kubelet and the agent of the pod network run.
func (m follower) runs() string {
	m.t.Helper()
	out := m.ok("bash", "-c", `for v in /usr/lib/porthole/versions/*/; do for p in /proc/[0-9]*; do
  [ $p/exe -ef $v/porthole ] && grep -qz '^kubelet$' $p/cmdline && echo kubelet $(basename $v)
  [ $p/exe -ef $v/porthole-routes ] && echo routes $(basename $v); done; done | sort; true`)
	return strings.Join(strings.Fields(out), " ")
}

// upgrades exchanges the programs of the node: by a version that is healthy, by one that does not run, which goes
// back, and by one whose upgrade is killed before and after each act, which the next command takes back.
func (m follower) upgrades() {
	second := m.version("v2", "")
	m.exchange(0, step.Planned, "upgrade", "--source", second, "--dry-run")
	r := m.exchange(0, step.Upgraded, "upgrade", "--source", second)
	m.t.Logf("upgrade took %.1f s", r.Seconds)
	if got, want := m.runs(), "kubelet "+r.To+" routes "+r.To; got != want {
		m.t.Errorf("the processes are %q, want %q", got, want)
	}
	m.exchange(0, step.Unchanged, "upgrade", "--source", second)

	bad := m.version("v3", "#!/bin/sh\nexit 1\n")
	back := m.exchange(5, step.RolledBack, "upgrade", "--source", bad)
	m.t.Logf("going back took %.1f s: %s", back.Seconds, back.Error)
	if got, want := m.runs(), "kubelet "+r.To+" routes "+r.To; got != want {
		m.t.Errorf("after a version that does not run the processes are %q, want %q", got, want)
	}
	m.exchange(4, step.Refused, "upgrade", "--source", bad)

	program, fourth := m.failing(), m.version("v4", "")
	for _, p := range []string{"stage/before", "stage/after", "porthole-routes/before", "porthole-routes/after",
		"kubelet/before", "kubelet/after", "soak/before", "soak/after"} {
		k := m.runAt(program, "upgrade "+p, "upgrade", "--source", fourth, "--force", "--skip-sums")
		if k.code != killCode && k.code != -1 {
			m.t.Errorf("killed at %s: code %d: %s%s", p, k.code, k.out, k.err)
		}
		if p == "kubelet/after" { // nobody rolls back: the kubelet does, and becomes the old one too
			wait.True(m.t, 2*time.Minute, "the kubelet to take the upgrade back", func() bool {
				return strings.Contains(m.run("cat", "/var/lib/porthole-node/upgrade.json").out, `"phase": "wentBack"`)
			})
		}
		if k := m.runAt(program, "upgrade back/kubelet/before", "rollback"); strings.HasPrefix(p, "soak") &&
			k.code != killCode && k.code != -1 {
			m.t.Errorf("going back after %s, killed too: code %d: %s%s", p, k.code, k.out, k.err)
		}
		if k := m.porthole("rollback"); k.code != 0 {
			m.t.Errorf("rollback after %s: code %d: %s%s", p, k.code, k.out, k.err)
		}
		if got, want := m.runs(), "kubelet "+r.To+" routes "+r.To; got != want {
			m.t.Errorf("after a kill at %s and a rollback the processes are %q, want %q", p, got, want)
		}
	}

	m.exchange(0, step.Upgraded, "upgrade", "--source", fourth, "--force")
	if last := m.exchange(0, step.Upgraded, "rollback"); last.To != r.To {
		m.t.Errorf("the rollback went to %s, want %s", last.To, r.To)
	}
}
