package join

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// TestWindows: an emulated Windows host joins the control plane of kubeadm by the line that kubeadm printed, runs pods
// and serves a service, joins again, which writes nothing anywhere, and leaves.
// Rows 1.112, 1.113.
func TestWindows(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	cp := newControlPlane(t, "cp06", "10.99.0.26").at(t)
	cp.hasNetwork("host-gateway", "")
	serveImages(t)
	w := newWindowsMachine(t, "win61")
	w.joinsAndWorks(cp)
	w.leaves(cp)
}

// windowsMachine is an emulated Windows host with containerd.exe, and with our archive unpacked in C:\porthole.
type windowsMachine struct {
	t    testing.TB
	name string
}

const windowsProgram = `C:\porthole\porthole.exe`

// serveImages runs the registry of the test's images where all machines reach it. It ends with the test.
func serveImages(t testing.TB) {
	t.Helper()
	program, dir := filepath.Join(bin, "bundle", "registry"), filepath.Join(state, "images")
	if out, err := exec.Command(program, "build", "--out", dir).CombinedOutput(); err != nil {
		t.Fatalf("making images: %v: %s", err, out)
	}
	m := &machine{t: t, dir: state}
	c := exec.Command("nsenter", "--net="+platform.NetnsPath(lab.Default.RouterNetns()), program, "serve", "--listen",
		registry, "--dir", dir)
	m.start(c, "registry")
}

var registry = lab.Router.String() + ":5000"

// newWindowsMachine makes a host of build 20348. It is removed when the test ends.
func newWindowsMachine(t testing.TB, name string) *windowsMachine {
	t.Helper()
	w := &windowsMachine{t, name}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(w.path("ProgramData/Porthole/logs/*.log")) // none is shown
			for _, l := range logs {
				text, _ := os.ReadFile(l) // what is missing is not shown
				t.Logf("%s:\n%s", filepath.Base(l), tail(string(text)))
			}
		}
		if out, err := exec.Command(filepath.Join(bin, "porthole"), "host", "delete", name, "--dir", state).
			CombinedOutput(); err != nil {
			t.Errorf("removing the host: %v: %s", err, out)
		}
	})

	w.must("create", name, "--build", "20348", "--firewall")
	for _, program := range []string{"porthole.exe", "kube-proxy.exe", "win-bridge.exe"} {
		data, err := os.ReadFile(filepath.Join(bin, "windows", program))
		must(t, err)
		w.write("porthole/"+program, data)
	}
	w.write("etc/containerd/certs.d/_default/hosts.toml", containerdconf.RegistryHosts("http://"+registry))
	w.write("Program Files/containerd/conf.d/sandbox.toml",
		[]byte(
			"version = 4\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = 'docker.io/porthole/pause:1'\n"))
	w.must("reboot", name, "--power-cut") // containerd.exe reads it
	w.must("start", name)
	return w
}

// must runs a command of `porthole host`.
func (w *windowsMachine) must(args ...string) string {
	w.t.Helper()
	r := w.host(args...)
	if r.code != 0 {
		w.t.Fatalf("porthole host %v: code %d: %s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

func (w *windowsMachine) host(args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(bin, "porthole"),
		append([]string{"host", args[0], "--dir", state}, args[1:]...)...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, time.Second
	start := time.Now()
	_ = c.Run() // its code tells
	return result{out.String(), errs.String(), c.ProcessState.ExitCode(), time.Since(start)}
}

// run runs a program on the host.
func (w *windowsMachine) run(program string, args ...string) result {
	w.t.Helper()
	return w.host(append([]string{"run", w.name, "--", program}, args...)...)
}

// report runs porthole.exe with -o json.
func (w *windowsMachine) report(args ...string) (report step.Report, code int) {
	w.t.Helper()
	r := w.run(windowsProgram, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		w.t.Fatalf("%v: %s%s", err, r.out, r.err)
	}
	return report, r.code
}

func (w *windowsMachine) path(name string) string {
	return filepath.Join(state, "hosts", w.name, "prefix", "drive_c", name)
}

func (w *windowsMachine) write(name string, data []byte) {
	w.t.Helper()
	must(w.t, testkit.WriteGuest(w.path(""), name, data, 0o755))
}

// service is one of the host's service manager; its name is empty if there is none.
func (w *windowsMachine) service(name string) scm.Listed {
	w.t.Helper()
	var list []scm.Listed
	must(w.t, json.Unmarshal([]byte(w.must("services", w.name, "-o", "json")), &list))
	if i := slices.IndexFunc(list, func(l scm.Listed) bool { return l.Name == name }); i >= 0 {
		return list[i]
	}
	return scm.Listed{}
}

// windowsServices are those that join makes.
var windowsServices = []string{"porthole-routes", "kube-proxy", "kubelet"}

// joinsAndWorks joins by the line of kubeadm, without any change, and uses the node.
func (w *windowsMachine) joinsAndWorks(cp follower) {
	w.t.Helper()
	line := cp.joinLine()
	r := w.run(windowsProgram, line...)
	w.t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
	if r.code != 0 || !strings.Contains(r.out, "node "+w.name+" is Ready (kubelet "+ourVersion) {
		w.t.Fatalf("porthole.exe %v: code %d", line, r.code)
	}
	for _, name := range windowsServices {
		if s := w.service(name); s.Status.State != scm.Running || s.Start != scm.StartAutomatic {
			w.t.Errorf("service %s: %+v", name, s)
		}
	}
	_, secret, _ := strings.Cut(line[3], ".")
	// code 1: nothing
	found, _ := exec.Command("grep", "-rslF", "--exclude=*.exe", "--exclude=*.dll", "--", secret,
		filepath.Join(state, "hosts", w.name)).Output()
	if len(found) > 0 {
		w.t.Errorf("the token is in %s", found)
	}

	w.pods(cp)
	w.serves(cp, "web")
	writes := joinWrites(cp.machine)
	if len(writes) == 0 {
		w.t.Error("the API server has noted no write of the join")
	}
	if report, code := w.report("join"); code != 0 || report.Outcome != step.Unchanged {
		w.t.Errorf("again: code %d, %s %s", code, report.Outcome, report.Error)
	}
	if now := joinWrites(cp.machine); len(now) > len(writes) {
		w.t.Errorf("a second join wrote %+v", now[len(writes):])
	}
}

// windowsPods are a pod that serves and one that asks.
const windowsPods = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-NODE", "labels": {"app": "web-NODE"}}, "spec": {"nodeName": "NODE", "automountServiceAccountToken": false,
  "terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "porthole/testapp:1", "args": ["serve", "--http", ":8080"]}]}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client-NODE"}, "spec": {"nodeName": "NODE", "automountServiceAccountToken": false,
  "terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "porthole/testapp:1", "args": ["sleep"]}]}}]}`

// pods runs two pods and asks for a log, and for a program in one of them.
func (w *windowsMachine) pods(cp follower) {
	w.t.Helper()
	file := filepath.Join(cp.dir, "windows-pods.json")
	must(w.t, os.WriteFile(file, []byte(strings.ReplaceAll(windowsPods, "NODE", w.name)), 0o600))
	cp.kubectl("apply", "-f", file)
	wait.True(w.t, 3*time.Minute, "the pods to run",
		func() bool { return cp.podIP("web-"+w.name) != "" && cp.podIP("client-"+w.name) != "" })
	for want, args := range map[string][]string{"serving HTTP": {"logs", "web-" + w.name},
		"Microsoft Windows": {"exec", "client-" + w.name, "--", "cmd", "/c", "ver"}} {
		wait.NoError(w.t, time.Minute, args[0], func() error {
			r := cp.run(cp.kubeadm, append([]string{"kubectl"}, args...)...)
			if r.code != 0 || !strings.Contains(r.out, want) {
				return fmt.Errorf("code %d: %s%s", r.code, r.out, r.err)
			}
			return nil
		})
	}
}

// serves makes a Service for the Windows pod. The client pod gets an answer at its cluster IP, so kube-proxy.exe has
// programmed it.
func (w *windowsMachine) serves(cp follower, name string) {
	w.t.Helper()
	cp.kubectl("expose", "pod", "web-"+w.name, "--name="+name+"-"+w.name, "--port=80", "--target-port=8080")
	ip := strings.TrimSpace(cp.kubectl("get", "service", name+"-"+w.name, "-o", "jsonpath={.spec.clusterIP}"))
	wait.NoError(w.t, 2*time.Minute, "an answer of the service "+name, func() error {
		r := cp.run(cp.kubeadm, "kubectl", "exec", "client-"+w.name, "--", `C:\testapp.exe`, "get", "http://"+ip+"/",
			"5")
		if r.code != 0 || !strings.Contains(r.out, "os=windows") {
			return fmt.Errorf("code %d: %s%s", r.code, r.out, r.err)
		}
		return nil
	})
}

// leaves: no service is left, and a second leave has nothing to do.
func (w *windowsMachine) leaves(cp follower) {
	w.t.Helper()
	if r := w.run(windowsProgram, "leave"); r.code != 0 || !strings.Contains(r.out, "nothing of Porthole is left") ||
		!strings.Contains(r.out, "kubectl delete node "+w.name) {
		w.t.Errorf("leave: code %d: %s%s", r.code, r.out, r.err)
	}
	for _, name := range windowsServices {
		if s := w.service(name); s.Name != "" {
			w.t.Errorf("service %s is left", name)
		}
	}
	if r := w.run(windowsProgram, "leave"); r.code != 0 || !strings.Contains(r.out, "nothing to do") {
		w.t.Errorf("a second leave: code %d: %s%s", r.code, r.out, r.err)
	}
	cp.kubectl("delete", "node", w.name)
}
