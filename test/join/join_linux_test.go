package join

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/join/step"
)

// TestJoin has kubeadm join a machine with our kubelet, and follows another one: refused joins, a dry run, the join by
// the line that kubeadm prints, a second one, one after a file is gone, exchanges of the programs, and leaving.
// Row 1.113.
func TestJoin(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	cp := newControlPlane(t, "cp01", "10.99.0.21")
	m := newMachine(t, "lin11", "10.99.0.31")
	m.importImage(filepath.Join(bin, "bundle", "images", "linux", "pause"), []string{"pause"}, []string{pauseImage})
	m.supervise()
	line := append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m")
	fresh := m.snapshot()

	t.Run("kubeadm join", func(t *testing.T) {
		t.Logf("kubeadm join with our kubelet: Ready after %.1f s", cp.at(t).kubeadmJoins("lin12", "10.99.0.32", ""))
	})
	t.Run("refused", func(t *testing.T) { m.at(t).refused(line, fresh) })
	t.Run("two at once", func(t *testing.T) { m.at(t).twoAtOnce(line) })
	t.Run("dry run", func(t *testing.T) { m.at(t).dryRun(cp.at(t).machine, line, fresh) })
	t.Run("join", func(t *testing.T) { m.at(t).join(cp.at(t).machine, line) })
	t.Run("again", func(t *testing.T) { m.at(t).again(cp.at(t).machine, line) })
	t.Run("file gone", func(t *testing.T) { m.at(t).fileGone(line) })
	t.Run("upgrade", func(t *testing.T) { m.at(t).upgrades() })
	t.Run("leave", func(t *testing.T) { m.at(t).leave(fresh) })
	t.Run("killed", func(t *testing.T) { m.at(t).killed(cp.at(t).machine, line, fresh) })
}

// follower is the machine of TestJoin in one of its subtests.
type follower struct{ *machine }

// at returns the machine for a subtest.
func (m *machine) at(t testing.TB) follower {
	copied := *m
	copied.t = t
	return follower{&copied}
}

func (m *machine) porthole(args ...string) result {
	m.t.Helper()
	return m.run(filepath.Join(bin, "porthole"), args...)
}

// report runs porthole with -o json.
func (m *machine) report(args ...string) (step.Report, result) {
	m.t.Helper()
	return m.reportBy(filepath.Join(bin, "porthole"), args...)
}

func (m *machine) reportBy(program string, args ...string) (step.Report, result) {
	m.t.Helper()
	r := m.run(program, append(args, "-o", "json")...)
	var report step.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		m.t.Fatalf("%v: %s%s", err, r.out, r.err)
	}
	return report, r
}

// snapshot lists the files of the machine with size, mode and time of change.
func (m *machine) snapshot() string {
	m.t.Helper()
	var dirs []string
	for _, d := range own {
		if d != "/run" && !strings.HasPrefix(d, "/var/log") {
			dirs = append(dirs, d)
		}
	}
	out := m.ok("find", append(dirs, "-mindepth", "1", "-printf", "%p %y %m %s %T@\n")...)
	return strings.Join(strings.Split(strings.TrimSpace(out), "\n"), "\n")
}

func (m *machine) unchanged(before, what string) {
	m.t.Helper()
	if after := m.snapshot(); after != before {
		m.t.Errorf("%s changed files:\n%s\nbefore:\n%s", what, after, before)
	}
}

// with returns the line with one argument replaced.
func with(line []string, old, fresh string) []string {
	out := make([]string, len(line))
	for i, a := range line {
		out[i] = strings.ReplaceAll(a, old, fresh)
	}
	return out
}

// refused has joins that must end before anything is changed.
func (m follower) refused(line []string, fresh string) {
	_, secret, _ := strings.Cut(line[3], ".")
	_, hash, _ := strings.Cut(line[5], ":")

	for name, try := range map[string]struct {
		line []string
		code int
		text string
	}{
		"wrong hash": {with(line, hash, strings.Repeat("0", 64)), 4,
			"wrong --discovery-token-ca-cert-hash, or not your API server"},
		"wrong secret": {with(line, secret, "ffffffffffffffff"), 4,
			"failed to verify JWS signature of received cluster info object, can't trust this API Server: wrong token secret"},
		"unknown id": {with(line, line[3], "aaaaaa."+secret), 4,
			`token id "aaaaaa" is invalid for this cluster or it has expired`},
		"closed port": {with(line, ":6443", ":6444"), 4, "cannot reach https://10.99.0.21:6444: connection refused"},
		"nobody":      {with(line, "10.99.0.21", "10.99.0.77"), 4, "cannot reach https://10.99.0.77:6443: "},
		"no TLS":      {with(line, "10.99.0.21:6443", "127.0.0.1:1338"), 4, "cannot reach https://127.0.0.1:1338: "},
		"name":        {append(with(line, "", ""), "--node-name", "lin_11"), 4, "→ --node-name lin-11"},
		"Ready name":  {append(with(line, "", ""), "--node-name", "cp01"), 4, "node cp01 is another machine"},
		"bad token":   {with(line, line[3], "nonsense"), 2, "does not have the form of a bootstrap token"},
		"no hash":     {line[:4], 2, "need --discovery-token-ca-cert-hash"},
		"control plane": {append(with(line, "", ""), "--control-plane"), 2,
			"--control-plane: Porthole joins workers only; use kubeadm on the control plane"},
		"label": {append(with(line, "", ""), "--node-labels", "node-role.kubernetes.io/x=y"), 2,
			"kubectl label node"},
	} {

		r := m.porthole(try.line...)
		if r.code != try.code || !strings.Contains(r.out+r.err, try.text) {
			m.t.Errorf("%s: code %d, want %d and %q:\n%s%s", name, r.code, try.code, try.text, r.out, r.err)
		}
		if strings.Contains(r.out+r.err, secret) {
			m.t.Errorf("%s: the output has the token's secret", name)
		}
		m.unchanged(fresh, name)
	}
}

// twoAtOnce runs a join while another process holds the lock of one.
func (m follower) twoAtOnce(line []string) {
	first := m.inside("flock", "/run/porthole-join.lock", "bash", "-c", "echo held; exec cat")
	in, err := first.StdinPipe()
	must(m.t, err)
	out, err := first.StdoutPipe()
	must(m.t, err)
	must(m.t, first.Start())
	_, err = out.Read(make([]byte, 16))
	must(m.t, err)
	r := m.porthole(line...)
	if r.code != 1 || !strings.Contains(r.err, "another porthole join or leave runs") {
		m.t.Errorf("code %d: %s%s", r.code, r.out, r.err)
	}
	must(m.t, in.Close()) // it ends, and lets the lock go
	must(m.t, first.Wait())
}

// dryRun changes neither files nor the API, and plans what the join then does.
func (m follower) dryRun(cp *machine, line []string, fresh string) {
	requests := cp.kubectl("get", "csr", "-o", "name")
	report, r := m.report(append(with(line, "", ""), "--dry-run")...)
	if r.code != 0 || report.Outcome != step.Planned {
		m.t.Errorf("code %d, outcome %s: %s", r.code, report.Outcome, report.Error)
	}
	planned := map[string]bool{}
	for _, s := range report.Steps {
		planned[s.ID] = s.Result == "planned"
	}
	for _, id := range []string{"key", "certificate", "file/kubelet.conf", "kubelet/config.yaml", "start/kubelet"} {
		if !planned[id] {
			m.t.Errorf("step %s is not planned", id)
		}
	}
	m.unchanged(fresh, "the dry run")
	if after := cp.kubectl("get", "csr", "-o", "name"); after != requests {
		m.t.Errorf("the dry run made the request %s", after)
	}
}

func (m follower) join(cp *machine, line []string) {
	r := m.porthole(line...)
	m.t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
	if r.code != 0 || !strings.Contains(r.out, "node lin11 is Ready (kubelet v1.36.3, containerd://") {
		m.t.Fatalf("code %d\nsupervisor:\n%s", r.code, tail(m.log("supervisor")))
	}
	cp.ready("lin11")
	m.noSecret(line[3])
}

// again joins the node once more: nothing is written, neither here nor to the API.
func (m follower) again(cp *machine, line []string) {
	before, writes := m.own(), joinWrites(cp)
	if len(writes) == 0 {
		m.t.Error("the API server has noted no write of the join")
	}
	r := m.porthole(line...)
	m.t.Logf("%.2f s\n%s%s", r.took.Seconds(), r.out, r.err)
	if r.code != 0 || !strings.Contains(r.out, "nothing to do: this machine is node lin11 of https://10.99.0.21:6443") {
		m.t.Errorf("code %d: %s%s", r.code, r.out, r.err)
	}
	if r = m.porthole("join"); r.code != 0 || !strings.Contains(r.out, "nothing to do") {
		m.t.Errorf("without arguments: code %d: %s%s", r.code, r.out, r.err)
	}
	if after := m.own(); after != before {
		m.t.Errorf("files changed:\n%s\nbefore:\n%s", after, before)
	}
	if now := joinWrites(cp); len(now) > len(writes) {
		m.t.Errorf("a second join wrote %+v", now[len(writes):])
	}
}

// own lists the files that join writes, without those that the node's programs keep changing.
func (m *machine) own() string {
	m.t.Helper()
	return m.ok("find", "/etc/kubernetes", "/usr/lib/porthole", "/opt/cni", "/var/lib/porthole-node/node.json",
		"/var/lib/kubelet/config.yaml",
		"/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/pki",
		"-printf", "%p %y %m %s %T@\n")
}

// fileGone removes one file: exactly its step is carried out.
func (m follower) fileGone(line []string) {
	m.ok("rm", "/etc/kubernetes/pki/ca.crt")
	report, r := m.report(line...)
	var done []string
	for _, s := range report.Steps {
		if s.Result == "done" {
			done = append(done, s.ID)
		}
	}
	if r.code != 0 || report.Outcome != step.Joined || strings.Join(done, " ") != "file/ca.crt" {
		m.t.Errorf("code %d, outcome %s, carried out: %v", r.code, report.Outcome, done)
	}
}

// leave takes everything back, and says at the second time that there is nothing to do.
func (m follower) leave(fresh string) {
	r := m.porthole("leave")
	m.t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
	if r.code != 0 || !strings.Contains(r.out, "nothing of Porthole is left") ||
		!strings.Contains(r.out, "kubectl delete node lin11") {
		m.t.Errorf("code %d", r.code)
	}
	m.clean(fresh)
	if r = m.porthole("leave"); r.code != 0 || !strings.Contains(r.out, "this machine is no node") {
		m.t.Errorf("twice: code %d: %s%s", r.code, r.out, r.err)
	}
}

// clean compares the files by name with those of a fresh machine.
func (m *machine) clean(fresh string) {
	m.t.Helper()
	had := map[string]bool{}
	for _, l := range strings.Split(fresh, "\n") {
		name, _, _ := strings.Cut(l, " ")
		had[name] = true
	}
	for _, l := range strings.Split(m.snapshot(), "\n") {
		if name, _, _ := strings.Cut(l, " "); !had[name] {
			m.t.Errorf("left: %s", l)
		}
	}
}

// noSecret looks for the secret of a token in each file of the machine, its logs, and the command lines of its
// processes.
func (m *machine) noSecret(token string) {
	m.t.Helper()
	_, secret, ok := strings.Cut(token, ".")
	if !ok {
		m.t.Fatalf("%q is no token", token)
	}
	if found := m.run("grep", append([]string{"-rslF", "--", secret}, own...)...); found.out != "" {
		m.t.Errorf("the token is in %s", found.out)
	}

	must(m.t, filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() == "root" {
			return fs.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), secret) {
			m.t.Errorf("the token is in %s", path)
		}
		return nil
	}))
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, l := range lines {
		if text, err := os.ReadFile(l); err == nil && strings.Contains(string(text), secret) {
			m.t.Errorf("the token is in the command line %q", text)
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-6000):] }
