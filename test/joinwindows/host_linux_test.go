package joinwindows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/statefolder"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

var (
	bin   string // folder of the programs under test
	state string // state folder of the cluster and the hosts
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "joinwindows:", err)
		code = 1
	}
	os.Exit(code)
}

// run brings a cluster of one Linux node and one Windows node up, and takes it down at the end.
func run(m *testing.M) (code int, err error) {
	if os.Getenv("PORTHOLE_JOIN")+os.Getenv("PORTHOLE_JOIN_SPEED") == "" {
		return m.Run(), nil // which says why it skips
	}
	if os.Geteuid() != 0 {
		return 1, errors.New("these tests make namespaces and mounts: run them as root")
	}
	if bin, err = filepath.Abs("../../bin"); err != nil {
		return 1, err
	}
	for file, target := range map[string]string{"porthole": "build", "windows/porthole.exe": "build",
		"bundle/windows/containerd.exe": "windows-runtime"} {
		if _, err := os.Stat(filepath.Join(bin, file)); err != nil {
			return 1, fmt.Errorf("%s is missing: run `make %s` first", file, target)
		}
	}
	var remove func() error
	if state, remove, err = statefolder.Make(filepath.Join(bin, "porthole")); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, remove()) }()

	if out, err := porthole(5*time.Minute, "up", "--linux-nodes", "1", "--windows-nodes", "1", "--supervisor",
		"services", "--dir", state); err != nil {
		return 1, fmt.Errorf("%w: %s", err, out)
	}
	return m.Run(), nil
}

// porthole runs bin/porthole and returns what it printed. An exit code that is not 0 is an *exec.ExitError.
func porthole(limit time.Duration, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var both bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "porthole"), args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &both, &both, time.Second
	err = cmd.Run()
	return both.String(), err
}

// shortly is the limit of commands that wait for nothing, on a machine that does much else.
const shortly = time.Minute

// host is an emulated Windows host with containerd.exe, and with our archive unpacked in C:\porthole.
type host struct {
	t    *testing.T
	name string
}

// newHost makes a host of a build. It is removed when the test ends.
func newHost(t *testing.T, name, build string) *host {
	t.Helper()
	h := &host{t, name}
	t.Cleanup(func() {
		if t.Failed() {
			h.logs()
		}
		if out, err := porthole(shortly, "host", "delete", name, "--dir", state); err != nil {
			t.Errorf("removing the host: %v: %s", err, out)
		}
		forget(t, "pod/web-"+name, "service/web-"+name, "node/"+name)
	})
	h.must(3*time.Minute, "host", "create", name, "--build", build, "--runtime", "containerd.exe", "--firewall",
		"--dir", state)

	for _, program := range []string{"porthole.exe", "kube-proxy.exe", "win-bridge.exe"} {
		data, err := os.ReadFile(filepath.Join(bin, "windows", program))
		if err != nil {
			t.Fatal(err)
		}
		h.write("porthole/"+program, string(data))
	}
	// What an administrator of a cluster with a registry of its own configures.
	h.write("etc/containerd/certs.d/_default/hosts.toml",
		"server = \"http://10.99.0.1:5000\"\n[host.\"http://10.99.0.1:5000\"]\n  capabilities = [\"pull\", \"resolve\"]\n")
	h.write("Program Files/containerd/conf.d/sandbox.toml",
		"version = 4\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = 'docker.io/porthole/pause:1'\n")
	before := h.service("containerd").Status.PID
	h.must(shortly, "host", "run", "--dir", state, name, "--", "sc", "stop", "containerd")
	wait.True(t, shortly, "containerd to stop", func() bool { return h.service("containerd").Status.PID != before })
	if h.service("containerd").Status.State != scm.Running {
		h.must(shortly, "host", "run", "--dir", state, name, "--", "sc", "start", "containerd")
	}
	return h
}

// must runs bin/porthole and fails the test if that fails.
func (h *host) must(limit time.Duration, args ...string) string {
	h.t.Helper()
	out, err := porthole(limit, args...)
	if err != nil {
		h.t.Fatalf("porthole %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// exe runs porthole.exe on the host and returns its exit code.
func (h *host) exe(program string, args ...string) (out string, code int) {
	h.t.Helper()
	out, err := porthole(3*time.Minute,
		append([]string{"host", "run", "--dir", state, h.name, "--", program}, args...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out, exit.ExitCode()
	}
	if err != nil {
		h.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return out, 0
}

const program = `C:\porthole\porthole.exe`

// token makes a bootstrap token, and returns its secret part and the arguments of the printed join command.
func (h *host) token() (secret string, args []string) {
	h.t.Helper()
	words := strings.Fields(h.must(shortly, "token", "create", "--print-join-command", "--dir", state))
	if len(words) < 5 || words[0] != "porthole" {
		h.t.Fatalf("the join command is %q", words)
	}
	_, secret, _ = strings.Cut(words[4], ".")
	return secret, append(words[1:], "--node-name", h.name)
}

// report runs porthole.exe with -o json and returns the report and the exit code.
func (h *host) report(args ...string) (r step.Report, code int) {
	h.t.Helper()
	return reportOf(h, program, args...)
}

// reportOf is report of porthole.exe at another place.
func reportOf(h *host, exe string, args ...string) (r step.Report, code int) {
	h.t.Helper()
	out, code := h.exe(exe, append(args, "-o", "json")...)
	if start := strings.Index(out, "{"); start >= 0 { // the log may stand before it
		if err := json.NewDecoder(strings.NewReader(out[start:])).Decode(&r); err != nil {
			h.t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return r, code
}

// done returns the steps of a report that changed something.
func done(r step.Report) (ids []string) {
	for _, s := range r.Steps {
		if s.Result != "unchanged" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// services are those of the host's service manager, and service is one of them.
func (h *host) services() (list []scm.Listed) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.must(shortly, "host", "services", h.name, "-o", "json", "--dir", state)),
		&list); err != nil {
		h.t.Fatal(err)
	}
	return list
}

func (h *host) service(name string) scm.Listed {
	h.t.Helper()
	list := h.services()
	if i := slices.IndexFunc(list, func(l scm.Listed) bool { return l.Name == name }); i >= 0 {
		return list[i]
	}
	return scm.Listed{}
}

// path is that of a file on C:, and write writes one.
func (h *host) path(name string) string {
	return filepath.Join(state, "hosts", h.name, "prefix", "drive_c", name)
}

func (h *host) write(name, text string) {
	h.t.Helper()
	if err := testkit.WriteGuest(h.path(""), name, []byte(text), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

// ours are the folders in which join and the node's programs make files.
var ours = []string{"Program Files/Porthole", "ProgramData/Porthole", "etc", "opt", "var/lib", "var/log/pods",
	"var/log/containers"}

// files returns the files in these folders.
func (h *host) files() (list []string) {
	h.t.Helper()
	for _, dir := range ours {
		err := filepath.WalkDir(h.path(dir), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !d.IsDir() {
				list = append(list, strings.TrimPrefix(path, h.path("")))
			}
			return err
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return list
}

// inside runs a command in the host's network namespace.
func (h *host) inside(args ...string) string {
	h.t.Helper()
	out, err := exec.Command("ip", append([]string{"netns", "exec", "porthole-" + h.name}, args...)...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// routes are the routes of the host. Linux' own of IPv6 are left out.
func (h *host) routes() []string {
	lines := strings.Split(strings.TrimSpace(h.inside("ip", "-4", "route")), "\n")
	for i, l := range lines { // ip ends some with a space
		lines[i] = strings.TrimSpace(l)
	}
	slices.Sort(lines)
	return lines
}

// kubectl asks the cluster as its administrator.
func (h *host) kubectl(args ...string) (string, error) {
	return porthole(shortly, append([]string{"kubectl", "--dir", state}, args...)...)
}

// forget deletes objects of the cluster, so that the next test's service gets its node port.
func forget(t *testing.T, objects ...string) {
	t.Helper()
	if out, err := porthole(shortly,
		append([]string{"kubectl", "--dir", state, "delete", "--ignore-not-found", "--force"},
			objects...)...); err != nil {
		t.Errorf("deleting %v: %v: %s", objects, err, out)
	}
}

// logs prints the end of the logs of the services.
func (h *host) logs() {
	files, _ := filepath.Glob(h.path("ProgramData/Porthole/logs/*.log")) // none is shown
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		h.t.Logf("%s:\n%s", filepath.Base(file), text[max(0, len(text)-3000):])
	}
}
