package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	hostfirewall "porthole.dev/porthole/internal/firewall"
	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/join/step"
)

// fakeManager is a service manager with the services that it is told of. It starts and stops none.
type fakeManager struct {
	list  map[string]*services.Status
	calls []string
	fail  error // of Start
	// started is when each service was started.
	started map[string]time.Time
}

func (f *fakeManager) Get(name string) (*services.Status, error) { return f.list[name], nil }

func (f *fakeManager) Apply(s services.Spec) error {
	f.calls = append(f.calls, "apply "+s.Name)
	if f.list[s.Name] == nil {
		f.list[s.Name] = &services.Status{State: "stopped"}
	}
	f.list[s.Name].Spec = s
	return nil
}

func (f *fakeManager) Delete(_ context.Context, name string) error {
	f.calls = append(f.calls, "delete "+name)
	delete(f.list, name)
	return nil
}

func (f *fakeManager) Start(_ context.Context, name string) error {
	f.calls = append(f.calls, "start "+name)
	if f.fail == nil {
		f.list[name].State, f.started[name] = stateRunning, time.Now()
	}
	return f.fail
}

func (f *fakeManager) Stop(_ context.Context, name string) error {
	f.calls = append(f.calls, "stop "+name)
	f.list[name].State = "stopped"
	return nil
}

// fakeWall is a firewall with the rules that it is told of.
type fakeWall struct {
	rules map[string]hostfirewall.Rule
	off   bool // its service does not run
	calls int  // that changed something
}

func (f *fakeWall) Get(names ...string) (map[string]hostfirewall.Rule, error) {
	if f.off {
		return nil, fmt.Errorf("opening the firewall: %w", hostfirewall.ErrOff)
	}
	out := map[string]hostfirewall.Rule{}
	for _, name := range names {
		if r, ok := f.rules[name]; ok {
			out[name] = r
		}
	}
	return out, nil
}

func (f *fakeWall) Replace(list ...hostfirewall.Rule) error {
	f.calls++
	for _, r := range list {
		f.rules[r.Name] = r
	}
	return nil
}

func (f *fakeWall) Remove(names ...string) error {
	f.calls++
	for _, name := range names {
		delete(f.rules, name)
	}
	return nil
}

// machine is a folder that stands for C:, with an unpacked archive.
type machine struct {
	t       *testing.T
	root    string
	manager *fakeManager
	wall    *fakeWall
	o       Options
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root := t.TempDir()
	m := &machine{t: t, root: root, wall: &fakeWall{rules: map[string]hostfirewall.Rule{"of somebody else": {}}},
		manager: &fakeManager{started: map[string]time.Time{}, list: map[string]*services.Status{
			"containerd": {Spec: services.Spec{Name: "containerd",
				Command: []string{`C:\Program Files\containerd\containerd.exe`}}, State: stateRunning}}}}
	m.o = Options{Node: "win07", NodeIP: "10.0.0.7", Source: m.path("zip"),
		Install: m.path("Program Files", "Porthole"), Data: m.path("ProgramData", "Porthole"), Root: root,
		Version: "v1", PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12",
		KubeletConfig: []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")}
	m.o.wall = m.wall
	for _, name := range []string{"porthole.exe", "kube-proxy.exe", "cni/win-bridge.exe"} {
		m.write(m.path("zip", name), "program "+name)
	}
	return m
}

func (m *machine) path(names ...string) string {
	return filepath.Join(append([]string{m.root}, names...)...)
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// files are all files and empty folders below the root but those of the archive.
func (m *machine) files() (out []string) {
	m.t.Helper()
	err := filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		if path == m.path("zip") {
			return fs.SkipDir
		}
		if err == nil && path != m.root {
			entries, _ := os.ReadDir(path) // none of a file
			if !d.IsDir() || len(entries) == 0 {
				out = append(out, strings.TrimPrefix(path, m.root+string(filepath.Separator)))
			}
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// steps are those that need nothing but files and the fake manager.
func (m *machine) steps() []step.Step {
	m.t.Helper()
	from, err := readSource(m.o.Source, m.o.Version)
	if err != nil {
		m.t.Fatal(err)
	}
	all, err := steps(&m.o, from, m.manager)
	if err != nil {
		m.t.Fatal(err)
	}
	for i, s := range all {
		if r, ok := s.(running); ok {
			r.started = func(uint32) (time.Time, error) { return m.manager.started[r.name], nil }
			all[i] = r
		}
	}
	return slices.DeleteFunc(all,
		func(s step.Step) bool { return s.ID() == "event-source" || s.ID() == "preshutdown-order" })
}

// join carries out all steps that something is to be done about, as package step does, and returns their names.
func (m *machine) join() (done []string) {
	m.t.Helper()
	for _, s := range m.steps() {
		op, err := step.Compare(m.t.Context(), s)
		if err != nil {
			m.t.Fatalf("%s: %v", s.ID(), err)
		}
		if op.Action == step.None {
			continue
		}
		done = append(done, s.ID())
		if err := s.Apply(m.t.Context()); err != nil {
			m.t.Fatalf("%s: %v", s.ID(), err)
		}
		if op, err = step.Compare(m.t.Context(), s); err != nil || op.Action != step.None {
			m.t.Errorf("%s is not settled: %s, %v", s.ID(), op, err)
		}
	}
	return done
}

func (m *machine) same(what string, got, want []string) {
	m.t.Helper()
	if !slices.Equal(got, want) {
		m.t.Errorf("%s:\n%q\nwant\n%q", what, got, want)
	}
}

// TestJoinAgain: a second run does nothing, and after a change exactly the step of what was changed.
func TestJoinAgain(t *testing.T) {
	m := newMachine(t)
	m.same("the first run", m.join(),
		[]string{"access", "programs", "cni-programs", "kubelet-config", "proxy-config", "firewall",
			"service/porthole-routes", "service/kube-proxy", "service/kubelet",
			"running/porthole-routes", "running/kube-proxy", "running/kubelet"})
	m.same("the second run", m.join(), nil)
	m.same("calls of the service manager", m.manager.calls,
		[]string{"apply porthole-routes", "apply kube-proxy", "apply kubelet", "start porthole-routes",
			"start kube-proxy", "start kubelet"})

	version := filepath.Dir(m.manager.list["kubelet"].Command[0])
	for name, c := range map[string]struct {
		change func()
		want   []string
	}{
		"a plugin is gone": {func() { os.Remove(m.path("opt", "cni", "bin", "win-bridge.exe")) },
			[]string{"cni-programs"}},
		"a program is another": {func() { m.write(filepath.Join(version, "kube-proxy.exe"), "other") },
			[]string{"programs"}},
		"a configuration changed": {func() { m.write(m.path("var", "lib", "kubelet", "config.yaml"), "x") },
			[]string{"kubelet-config", "running/kubelet"}},
		"a configuration changed, and the run ended there": {func() {
			m.manager.started["kubelet"] = time.Now().Add(-time.Hour)
		}, []string{"running/kubelet"}},
		"a rule is gone": {func() { delete(m.wall.rules, "Porthole: TCP 10250 (kubelet)") }, []string{"firewall"}},
		"a rule is off": {func() {
			r := m.wall.rules["Porthole: TCP 10256 (kube-proxy health)"]
			r.Limited = true
			m.wall.rules[r.Name] = r
		}, []string{"firewall"}},
		"a service is gone": {func() { delete(m.manager.list, "kube-proxy") },
			[]string{"service/kube-proxy", "running/kube-proxy"}},
		"a service was stopped": {func() { m.manager.list["kubelet"].State = "stopped" }, []string{"running/kubelet"}},
		"another command line": {func() { m.manager.list["porthole-routes"].Command = []string{`C:\x\porthole.exe`} },
			[]string{"service/porthole-routes", "running/porthole-routes"}},
	} {
		c.change()
		m.same(name, m.join(), c.want)
		m.same(name+", again", m.join(), nil)
	}

	// From the folder in which it is installed.
	m.o.Source = version
	m.same("from the folder of the version", m.join(), nil)
}

// TestServices: the command lines that the services get.
func TestServices(t *testing.T) {
	m := newMachine(t)
	m.o.Labels, m.o.Taints, m.o.Verbosity = "a=b", "os=windows:NoSchedule", 2
	m.join()
	for name, want := range map[string][]string{
		"porthole-routes": {"porthole.exe", "routes", "--windows-service", "--kubeconfig=",
			"--cluster-cidr=10.244.0.0/16", "--service-cidr=10.96.0.0/12", "--cni-conf-dir=", "--v=2"},
		"kube-proxy": {"kube-proxy.exe", "--windows-service", "--config=", "--hostname-override=win07"},
		"kubelet": {"kubelet.exe", "--windows-service", "--config=", "--kubeconfig=", "--hostname-override=win07",
			"--node-ip=10.0.0.7", "--node-labels=a=b",
			"--register-with-taints=os=windows:NoSchedule"},
	} {
		line := strings.Join(m.manager.list[name].Command, " ")
		for _, part := range want {
			if !strings.Contains(line, part) {
				t.Errorf("%s lacks %s: %s", name, part, line)
			}
		}
		if strings.Contains(line, "token") {
			t.Errorf("%s: %s", name, line)
		}
	}
	if got := m.manager.list["kubelet"].Dependencies; !slices.Equal(got, []string{"containerd"}) {
		t.Errorf("the kubelet depends on %v", got)
	}
}

// TestModes: what porthole-routes of each mode needs is there, and where the mode implements services itself there is
// no kube-proxy.
func TestModes(t *testing.T) {
	for mode, c := range map[string]struct {
		spoil func(*Options)
		steps []string // those of services and of their files
		flags string
	}{
		"host-gateway": {func(*Options) {},
			[]string{"proxy-config", "service/porthole-routes", "service/kube-proxy", "service/kubelet"},
			"--mode=host-gateway"},
		"vxlan": {func(o *Options) { o.RoutesArgs = []string{"--vxlan-hybrid-overlay"} },
			[]string{"proxy-config", "service/porthole-routes", "service/kube-proxy", "service/kubelet"},
			"--mode=vxlan --vxlan-hybrid-overlay"},
		"bgp": {func(o *Options) { o.BGPConfig = []byte("asNumber: 64512\n") },
			[]string{"proxy-config", "routes-config", "service/porthole-routes", "service/kube-proxy",
				"service/kubelet"}, "--mode=bgp --bgp-config="},
		"ovn": {func(o *Options) { o.NoProxy = true }, []string{"service/porthole-routes", "service/kubelet"},
			"--mode=ovn"},
	} {

		m := newMachine(t)
		m.o.Mode = mode
		c.spoil(&m.o)
		m.same(mode, slices.DeleteFunc(m.join(), func(id string) bool {
			return id != "proxy-config" && id != "routes-config" && !strings.HasPrefix(id, "service/")
		}), c.steps)
		m.same(mode+", again", m.join(), nil)
		if line := strings.Join(m.manager.list["porthole-routes"].Command, " "); !strings.Contains(line, c.flags) {
			t.Errorf("%s: %s", mode, line)
		}
		if mode == "bgp" {
			m.o.BGPConfig = []byte("asNumber: 64513\n")
			m.manager.started["porthole-routes"] = time.Now().Add(-time.Hour) // times of files are not exact
			m.same("other peers", m.join(), []string{"routes-config", "running/porthole-routes"})
		}
	}
}

// TestLeave: undone, nothing is left but what was there before.
func TestLeave(t *testing.T) {
	m := newMachine(t)
	// the same, installed by somebody else
	m.write(m.path("opt", "cni", "bin", "win-bridge.exe"), "program cni/win-bridge.exe")
	m.write(m.path("opt", "cni", "bin", "other.exe"), "x")
	was := m.files()
	before := map[string][]byte{}
	for _, s := range m.steps() {
		op, err := step.Compare(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		before[s.ID()] = op.Observed
	}
	m.join()

	m.o.KubeletConfig, m.o.Source = nil, ""
	undo, err := steps(&m.o, source{}, m.manager)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // also what is undone already
		for _, s := range slices.Backward(undo) {
			if b := before[s.ID()]; b != nil {
				if err := s.Undo(t.Context(), b); err != nil {
					t.Errorf("%s: %v", s.ID(), err)
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(m.manager.list)); !slices.Equal(got, []string{"containerd"}) {
		t.Errorf("services: %v", got)
	}
	if got := slices.Sorted(maps.Keys(m.wall.rules)); !slices.Equal(got, []string{"of somebody else"}) {
		t.Errorf("firewall rules: %q", got)
	}
	left := m.files()
	left = slices.DeleteFunc(left, func(path string) bool {
		return path == filepath.Join("var", "lib") || path == "etc" || path == "ProgramData" || path == "Program Files"
	})
	m.same("files", left, was)
}

// TestForeignService: a service that another program installed is neither changed nor removed.
func TestForeignService(t *testing.T) {
	m := newMachine(t)
	m.manager.list["kubelet"] = &services.Status{Spec: services.Spec{Name: "kubelet", Command: []string{`C:\nssm.exe`}},
		State: stateRunning}
	for _, s := range m.steps() {
		if s.ID() != "service/kubelet" {
			continue
		}
		if _, err := s.Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "sc.exe delete kubelet") {
			t.Errorf("observed: %v", err)
		}
		if err := s.Undo(t.Context(), []byte("null")); err == nil {
			t.Error("it is removed")
		}
	}
	if m.manager.list["kubelet"] == nil {
		t.Error("it is gone")
	}
}

// Variables of the services are part of their configuration: another one is set, and restarts them.
func TestEnvironment(t *testing.T) {
	m := newMachine(t)
	m.join()
	m.manager.calls = nil
	m.o.Environment = map[string]string{"HTTPS_PROXY": "http://10.0.0.1:3128"}
	m.same("a variable", m.join(), []string{"service/porthole-routes", "service/kube-proxy", "service/kubelet",
		"running/porthole-routes", "running/kube-proxy", "running/kubelet"})
	m.same("calls", m.manager.calls,
		[]string{"stop porthole-routes", "apply porthole-routes", "stop kube-proxy", "apply kube-proxy", "stop kubelet",
			"apply kubelet",
			"start porthole-routes", "start kube-proxy", "start kubelet"})
	m.same("kubelet", m.manager.list["kubelet"].Environment, []string{"HTTPS_PROXY=http://10.0.0.1:3128"})
	m.same("again", m.join(), nil)
}

// TestFirewall: ports of the user's configuration are let in too; where no firewall runs, or none is wanted, nothing
// is done.
func TestFirewall(t *testing.T) {
	m := newMachine(t)
	m.o.FirewallPorts = []int{9182}
	m.join()
	got := slices.Sorted(maps.Keys(m.wall.rules))
	m.same("rules", got, []string{"Porthole: TCP 10250 (kubelet)", "Porthole: TCP 10256 (kube-proxy health)",
		"Porthole: TCP 9182 (NodeConfiguration)", "of somebody else"})

	off := newMachine(t)
	off.wall.off = true
	if done := off.join(); slices.Contains(done, "firewall") || off.wall.calls > 0 {
		t.Errorf("without the firewall's service: %q, %d calls", done, off.wall.calls)
	}
	if err := (firewall{off.o.firewallRules(), off.wall}).Undo(t.Context(), nil); err != nil {
		t.Errorf("undone without the firewall's service: %v", err)
	}
	unwanted := newMachine(t)
	unwanted.o.NoFirewall = true
	if done := unwanted.join(); slices.Contains(done, "firewall") {
		t.Errorf("unwanted: %q", done)
	}
}

// TestPatches: the user's patches come after what Windows needs.
func TestPatches(t *testing.T) {
	m := newMachine(t)
	m.o.RuntimeEndpoint = Pipe
	m.o.Patches = [][]byte{[]byte("maxPods: 42\nresolvConf: null\n")}
	text, err := m.o.KubeletYAML()
	if err != nil || !strings.Contains(string(text), "maxPods: 42\n") || strings.Contains(string(text), "resolvConf") {
		t.Errorf("%v:\n%s", err, text)
	}
	m.o.Patches = [][]byte{[]byte("maxPods: [")}
	if _, err := m.o.KubeletYAML(); err == nil || !strings.Contains(err.Error(), "reading --patches") {
		t.Errorf("a broken patch: %v", err)
	}
}

// TestStartFails: the error has what the program logged.
func TestStartFails(t *testing.T) {
	m := newMachine(t)
	m.join()
	m.manager.list["kubelet"].State, m.manager.list["kubelet"].LastError, m.manager.list["kubelet"].Log = "stopped",
		"E1123 bad flag", `C:\logs\kubelet.log`
	m.manager.fail = errors.New("stopped while it started")
	err := running{name: "kubelet", manager: m.manager}.Apply(t.Context())
	if err == nil || !strings.Contains(err.Error(), "E1123 bad flag") ||
		!strings.Contains(err.Error(), `C:\logs\kubelet.log`) {
		t.Errorf("%v", err)
	}
}

func TestSource(t *testing.T) {
	m := newMachine(t)
	sums := sumOf([]byte("program porthole.exe")) + "  porthole.exe\n" + sumOf([]byte("program cni/win-bridge.exe")) +
		"  cni/win-bridge.exe\n"
	m.write(m.path("zip", "SHA256SUMS"), sums)
	s, err := readSource(m.o.Source, "v1")
	if err != nil || !strings.HasPrefix(s.id, "v1-") || len(s.id) != 3+32 || s.plugins["win-bridge.exe"] == "" {
		t.Fatalf("%+v, %v", s, err)
	}

	m.write(m.path("zip", "cni", "win-bridge.exe"), "damaged")
	if _, err := readSource(m.o.Source, "v1"); err == nil ||
		!strings.Contains(err.Error(), "win-bridge.exe is damaged") {
		t.Errorf("a damaged program: %v", err)
	}
	m.write(m.path("zip", "SHA256SUMS"), "nonsense\n")
	if _, err := readSource(m.o.Source, "v1"); err == nil || !strings.Contains(err.Error(), "no line of sha256sum") {
		t.Errorf("damaged sums: %v", err)
	}
	if err := os.Remove(m.path("zip", "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.path("zip", "kube-proxy.exe")); err != nil {
		t.Fatal(err)
	}
	if _, err := readSource(m.o.Source, "v1"); err == nil ||
		!strings.Contains(err.Error(), "kube-proxy.exe is not in "+m.path("zip")) {
		t.Errorf("a missing program: %v", err)
	}
}

// TestBadKubeletConfig: nothing is written of a configuration that cannot be read.
func TestBadKubeletConfig(t *testing.T) {
	m := newMachine(t)
	m.o.KubeletConfig = []byte("kind: Pod")
	for _, s := range m.steps() {
		if s.ID() != "kubelet-config" {
			continue
		}
		if _, err := s.Observe(t.Context()); err == nil {
			t.Error("observed without an error")
		}
		if err := s.Apply(t.Context()); err == nil {
			t.Error("applied without an error")
		}
		if text, err := json.Marshal(s.Wanted()); err != nil ||
			!strings.Contains(string(text), "KubeletConfiguration") {
			t.Errorf("wanted: %s, %v", text, err)
		}
	}
}

// TestClosed: every path that the services of a node name, and every file that join writes, is in a folder that others
// cannot write, or is closed itself, and no folder around it can be replaced. A flag with a new path fails here until
// its folder is on the list.
func TestClosed(t *testing.T) {
	m := newMachine(t)
	m.o.BGPConfig = []byte("fullMesh: true\n")
	var paths []string
	for _, s := range m.steps() {
		switch s := s.(type) {
		case service:
			for _, arg := range s.spec.Command {
				_, value, _ := strings.Cut(arg, "=")
				for _, text := range []string{arg, value} {
					if filepath.IsAbs(text) {
						paths = append(paths, text)
					}
				}
			}
		case files:
			paths = append(paths, s.paths...)
		case installed:
			for name := range s.from {
				paths = append(paths, filepath.Join(s.dir, name))
			}
		}
	}
	// What the programs find by themselves: plugins of the kubelet, pull secrets of the node, mirrors of registries.
	paths = append(paths, m.o.kubelet("plugins_registry", "x-reg.sock"), m.o.kubelet("plugins", "x", "csi.sock"),
		m.o.kubelet("device-plugins", "x.sock"),
		m.o.kubelet("config.json"), m.path("etc", "cni", "net.d", "10-porthole.conf"),
		m.path("opt", "cni", "bin", "win-bridge.exe"),
		m.path("etc", "containerd", "certs.d", "docker.io", "hosts.toml"))
	if len(paths) < 25 {
		t.Fatalf("paths %q", paths)
	}

	closed := append(m.o.closedFolders(), m.o.closedFiles()...)
	around := access{dirs: m.o.closedFolders(), files: m.o.closedFiles()}.around()
	for _, path := range paths {
		if path == m.o.kubelet() || path == m.o.Root {
			continue // folders of pods are in it
		}
		i := slices.IndexFunc(closed,
			func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator)) })
		if i < 0 {
			t.Errorf("%s can be written by others", path)
			continue
		}
		for dir := filepath.Dir(closed[i]); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if !slices.Contains(around, dir) {
				t.Errorf("%s can be replaced by others, and with it %s", dir, path)
			}
		}
	}
}
