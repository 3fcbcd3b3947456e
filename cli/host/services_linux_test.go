package host_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
	"porthole.dev/porthole/internal/testkit/wait"
)

// testServices makes the programs of a node services of an emulated host, with the command that does so on Windows:
// they start, log, come back after a crash, after an error and after their configuration changed, say where an
// operator looks what is wrong with a flag, and stop in order. No API server is there: they wait for one.
func (w *world) testServices(t *testing.T) {
	k := filepath.Join(w.driveC(), "k")
	if err := os.Mkdir(k, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, forWindows, "go", "build", "-o", filepath.Join(k, "porthole.exe"), "../../cmd/porthole")
	for name, text := range map[string]string{
		"config": `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
 "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:6443"}}], "users": [{"name": "u", "user": {}}]}`,
		"proxy.yaml": `{"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
 "clientConnection": {"kubeconfig": "C:\\k\\config"}, "winkernel": {"networkName": "porthole"}}`,
		"kubelet.yaml": `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
 "containerRuntimeEndpoint": "tcp://127.0.0.1:10091", "podLogsDir": "C:\\var\\log\\pods",
 ` + podsConfig + `}`,
	} {
		if err := os.WriteFile(filepath.Join(k, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if err := wine.Own(k); err != nil {
		t.Fatal(err)
	}
	pods := w.servePods(t)
	t.Run("install", w.testInstall)
	w.service(0, "start")
	pods.run(t)
	t.Run("crash", w.testCrash)
	t.Run("configuration changed", func(t *testing.T) { w.testConfigChange(t, filepath.Join(k, "proxy.yaml")) })
	t.Run("reboot", func(t *testing.T) { w.testReboot(t, pods) })
	t.Run("stop", w.testStopServices)
	t.Run("a flag that does not exist", w.testBadFlag)
	w.service(0, "uninstall")
	if list := w.services(); len(list) != 0 {
		t.Errorf("services are left: %+v", list)
	}
}

func (w *world) driveC() string { return filepath.Join(w.dir, "hosts", w.name, "prefix", "drive_c") }

// service runs `porthole service` on the host and returns what it printed, errors included.
func (w *world) service(code int, args ...string) string {
	w.t.Helper()
	out, errs, got := w.call("", append([]string{"run", w.name, "--", `C:\k\porthole.exe`, "service"}, args...)...)
	if got != code {
		w.t.Fatalf("porthole service %v: exit code %d, want %d\n%s%s", args, got, code, out, errs)
	}
	return out + errs
}

// services are those of the host's service manager, by name.
func (w *world) services() map[string]scm.Listed {
	w.t.Helper()
	var list []scm.Listed
	w.json(&list, "services", w.name)
	found := map[string]scm.Listed{}
	for _, l := range list {
		found[l.Name] = l
	}
	return found
}

func (w *world) log(program string) string {
	// none yet is an empty one
	data, _ := os.ReadFile(filepath.Join(w.driveC(), "ProgramData", "Porthole", "logs", program+".log"))
	return string(data)
}

// event reports whether the host's event log has an entry of the program with that text.
func (w *world) event(id uint32, text string) bool { return w.count(id, text) > 0 }

// count is how many of these entries there are.
func (w *world) count(id uint32, text string) (n int) {
	w.t.Helper()
	var events []scm.Event
	w.json(&events, "events", w.name)
	for _, e := range events {
		if e.Log == "Application" && e.Source == "Porthole" && e.ID == id && strings.Contains(e.Text, text) {
			n++
		}
	}
	return n
}

var serviceArgs = map[string][]string{
	"routes":     {"--kubeconfig", `C:\k\config`, "--cluster-cidr", "10.244.0.0/16", "--service-cidr", "10.96.0.0/12"},
	"kube-proxy": {"--config", `C:\k\proxy.yaml`, "--hostname-override", "n1"},
	// Wine takes /var for Linux' own
	"kubelet": {"--config", `C:\k\kubelet.yaml`, "--node-ip", "10.99.0.101", `--root-dir=C:\var\lib\kubelet`},
}

// dependencies are what services need, by name. The kubelet needs containerd; here another service stands for it.
var dependencies = map[string]string{"kubelet": "porthole-routes"}

func (w *world) testInstall(t *testing.T) {
	for name, args := range serviceArgs {
		line := append([]string{"install", name, "--depends-on", dependencies[name], "--"}, args...)
		if out := w.service(0, slices.Insert(slices.Clone(line), 2, "--dry-run")...); !strings.Contains(out,
			"create service") {
			t.Errorf("%s, dry run: %s", name, out)
		}
		w.service(0, line...)
		if out := w.service(0, line...); out != "nothing to change\n" {
			t.Errorf("%s, again: %s", name, out)
		}
	}
	for name, s := range w.services() {
		if s.Start != scm.StartAutomatic || !s.Failure.NonCrash || len(s.Failure.Actions) != 3 ||
			s.Failure.Reset != 600 || s.Description == "" || s.SIDType != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if out := w.service(1, "install", "dockerd"); !strings.Contains(out, "known are routes, kube-proxy, kubelet") {
		t.Errorf("an unknown program: %s", out)
	}
}

// running waits until the service runs in another process than before.
func (w *world) running(name string, before uint32) uint32 {
	w.t.Helper()
	var pid uint32
	wait.True(w.t, 30*time.Second, name+" as another process", func() bool {
		s := w.services()[name]
		pid = s.Status.PID
		return s.Status.State == scm.Running && pid != before
	})
	return pid
}

// testCrash kills each program. It is a process of Linux in the host's network namespace that has its log file in its
// command line.
func (w *world) testCrash(t *testing.T) {
	for name, program := range map[string]string{"porthole-routes": "routes", "kube-proxy": "kube-proxy",
		"kubelet": "kubelet"} {
		before := w.running(name, 0)
		pids, err := platform.NetnsPids(platform.NetnsPath("porthole-" + w.name))
		if err != nil {
			t.Fatal(err)
		}

		killed := 0
		for _, pid := range pids {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone meanwhile: not the program
			if !bytes.Contains(args, []byte(`logs\`+program+".log")) {
				continue
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
		if killed != 1 {
			t.Fatalf("%s: killed %d processes", name, killed)
		}

		w.running(name, before)
		if s := w.services()[name]; s.Failures != 1 {
			t.Errorf("%s: %d failures", name, s.Failures)
		}
		if !w.event(1, name+" started") {
			t.Errorf("%s: no event of its start", name)
		}
	}
}

// testConfigChange: kube-proxy ends with an error when its file changes, and the manager starts it again.
func (w *world) testConfigChange(t *testing.T, file string) {
	before := w.running("kube-proxy", 0)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	w.running("kube-proxy", before)
	if !strings.Contains(w.log("kube-proxy"), "the --config file has changed") {
		t.Errorf("its log:\n%s", w.log("kube-proxy"))
	}
	if !w.event(10, "the --config file has changed") {
		t.Error("no event of it")
	}
	var events []scm.Event
	w.json(&events, "events", w.name)
	for _, e := range events {
		if e.ID == 7023 {
			t.Errorf(
				"it told the manager how it ended (%s): without the failure flag, which other installers do not set, it would stay stopped", e.Text)
		}
	}
}

// testReboot: all services are told of the shutdown and stop, the kubelet when its pods have ended, and all start
// again by themselves in another boot.
func (w *world) testReboot(t *testing.T, pods *podsOfHost) {
	names := []string{"kube-proxy", "kubelet", "porthole-routes"}
	starts := map[string]int{}
	for _, name := range names {
		w.running(name, 0) // one that was killed may end once more, while the killed one's port is taken
		starts[name] = w.count(1, name+" started")
	}
	var done struct {
		BootID   uint32
		Services []scm.Ended
	}
	w.json(&done, "reboot", w.name)
	for _, e := range done.Services {
		if e.Phase != "preshutdown" {
			t.Errorf("%s ended by %s", e.Service, e.Phase)
		}
	}
	if len(done.Services) != len(names) || done.BootID != 2 {
		t.Errorf("the reboot: %+v", done)
	}
	pods.ended(t, done.Services)

	for _, name := range names {
		wait.True(t, 60*time.Second, name+" to start by itself",
			func() bool { return w.count(1, name+" started") > starts[name] })
		if w.count(2, name+" stopped") == 0 {
			t.Errorf("%s: no event of its stop", name)
		}
	}
	if out := w.must("run", w.name, "--", "reg", "query",
		`HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`,
		"/v", "BootId"); !strings.Contains(out, "0x2") {
		t.Errorf("BootId: %s", out)
	}
}

// testStopServices: a stop is no failure, and nothing comes back.
func (w *world) testStopServices(t *testing.T) {
	before := w.services()
	const plan = "change service kubelet: state from running to stopped\nchange service kube-proxy: state from running to stopped\n" +
		"change service porthole-routes: state from running to stopped\n"
	if out := w.service(0, "stop", "--dry-run"); out != plan {
		t.Errorf("the plan of stop is %q", out)
	}
	for name, s := range w.services() {
		if s.Status.State != scm.Running {
			t.Errorf("%s is %v after the plan", name, s.Status.State)
		}
	}
	if out := w.service(0, "stop"); out != "kubelet: stop done\nkube-proxy: stop done\nporthole-routes: stop done\n" {
		t.Errorf("stop printed %q", out)
	}
	for name, s := range w.services() {
		if s.Status.State != scm.Stopped || s.Status.Exit != scm.OK || s.Failures != before[name].Failures {
			t.Errorf("%s: %+v", name, s)
		}
		if !w.event(2, name+" stopped") {
			t.Errorf("%s: no event of its stop", name)
		}
	}
}

// testBadFlag: what is wrong with a flag is in the log file, in the event log, and in what the commands print.
func (w *world) testBadFlag(t *testing.T) {
	const text = "unknown flag: --no-such-flag"
	for name := range serviceArgs {
		w.service(0, "install", name, "--", "--no-such-flag")
		// The service may end before the command looks, or after.
		out, errs, code := w.call("", "run", w.name, "--", `C:\k\porthole.exe`, "service", "start", name)
		if code != 0 && !strings.Contains(out+errs, text) {
			t.Errorf("%s: start printed %s%s", name, out, errs)
		}
		wait.True(t, 30*time.Second, name+" to say what is wrong",
			func() bool { return strings.Contains(w.log(name), text) && w.event(10, text) })
		var status []services.Status
		if err := json.Unmarshal([]byte(w.service(0, "status", name, "-o", "json")), &status); err != nil {
			t.Fatal(err)
		}
		if len(status) != 1 || !strings.Contains(status[0].LastError, text) {
			t.Errorf("%s: %s", name, fmt.Sprintf("%+v", status))
		}
	}
}
