package joinwindows

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// builds are those on which the whole test runs. `make test-join` runs all.
func builds() []string {
	if long() {
		return []string{"20348", "17763", "26100"}
	}
	return []string{"20348"}
}

// TestJoinWindows is the life of a node: it joins by the line that was printed, runs a pod, is found right by a second
// join, mended by a third, comes back after kills and a reboot, and leaves nothing.
// Rows 1.02, 1.08, 1.89, 1.112, 1.113, 1.116.
func TestJoinWindows(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("takes minutes: PORTHOLE_JOIN=20348, PORTHOLE_JOIN=long for all builds, or `make test-join`")
	}
	for _, build := range builds() {
		t.Run(build, func(t *testing.T) {
			h := newHost(t, "win"+build[:3], build)
			wall := walled{h}
			wall.foreign()
			before, routes, rules := h.files(), h.routes(), wall.rules()
			wall.opens(false, "before the join")

			h.refusals()
			h.dryRun(before)
			faulty{h}.denied()
			faulty{h}.manager("create:kubelet:1072:2", "start:kube-proxy:1053")
			member{h}.expects()
			h.joins()

			h.podWorks("first")
			member{h}.runsExpected()
			if build == "20348" {
				member{h}.stops() // a minute
			}
			h.joinsAgain()
			h.closed()
			h.mends()
			faulty{h}.ordered()
			faulty{h}.hangs()
			faulty{h}.killedAgain(map[bool]int{true: 5, false: 2}[long()])
			faulty{h}.alone()

			upgrader{h}.upgrades()
			h.reboots()
			wall.opens(true, "of a node")
			h.closed()
			back := faulty{h}.away()
			h.leaves(before, routes)
			back()
			wall.opens(false, "after leave")
			if after := wall.rules(); after != rules || !strings.Contains(after, "of somebody else") {
				t.Errorf("firewall rules after leave:\n%s\nbefore:\n%s", after, rules)
			}
		})
	}
}

// TestServices: `porthole up --supervisor services` makes its Windows node by the same join. The node comes back by
// itself after kills and a reboot, with its pod, and no pod starts before there is a network.
func TestServices(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("takes minutes: PORTHOLE_JOIN=20348 or `make test-join`")
	}
	h := &host{t, "win01"}
	t.Cleanup(func() {
		if t.Failed() {
			h.logs()
		}
		forget(t, "pod/web-win01", "service/web-win01")
	})
	h.podWorks("first")
	h.joinsAgain()
	h.comesBack()
	before := containerOf(h)
	h.reboots()
	if now := containerOf(h); now == before {
		t.Errorf("the pod's container outlived the reboot: %s", now)
	}
	h.waitsForNetwork()
	if out := h.must(shortly, "status", "--dir", state); !strings.Contains(out, "win01/kubelet") ||
		!strings.Contains(out, "win01: boot 3: pod network 10.244.") {
		t.Errorf("porthole status:\n%s", out)
	}
}

// TestReboots: a node that join made comes back by itself, reboot after reboot, whatever HNS loses.
// PORTHOLE_JOIN_REBOOTS says how many.
func TestReboots(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("PORTHOLE_JOIN_REBOOTS")) // none is 0
	if n == 0 {
		t.Skip("takes a quarter of a minute each: PORTHOLE_JOIN_REBOOTS=50, or `make test-join-reboots`")
	}
	h := newHost(t, "win50", "20348")
	routes := h.routes()
	h.joins()
	h.podWorks("first")
	faulty{h}.rebootsAgain(2, n, routes)
	if r, code := h.report("join"); code != 0 || r.Outcome != step.Unchanged {
		t.Errorf("after %d reboots a join changes %v: %s", n, done(r), r.Error)
	}
}

// TestUpgrades: the programs of a node are exchanged again and again while connections to its pod are open.
// PORTHOLE_JOIN_UPGRADES says how often.
func TestUpgrades(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("PORTHOLE_JOIN_UPGRADES")) // none is 0
	if n == 0 {
		t.Skip("takes a quarter of a minute each: PORTHOLE_JOIN_UPGRADES=20, or `make test-join-upgrades`")
	}
	h := newHost(t, "win80", "20348")
	h.joins()
	h.podWorks("first")
	upgrader{h}.again(n)
	upgrader{h}.exchange(0, step.Upgraded, program, "upgrade")
	if r, code := h.report("join"); code != 0 || r.Outcome != step.Unchanged {
		t.Errorf("after %d upgrades a join changes %v: %s", n, done(r), r.Error)
	}
}

// TestUpgradeKilled: upgrades are killed in each phase, and while they go back.
func TestUpgradeKilled(t *testing.T) {
	if !long() && os.Getenv("PORTHOLE_JOIN") != "killed" {
		t.Skip("takes minutes: PORTHOLE_JOIN=killed or `make test-join`")
	}
	h := newHost(t, "win81", "20348")
	h.joins()
	h.podWorks("first")
	upgrader{h}.killedEverywhere()
	if r, code := h.report("join"); code != 0 || r.Outcome != step.Unchanged {
		t.Errorf("after killed upgrades a join changes %v: %s", done(r), r.Error)
	}
}

// TestServiceManager: upstream's own tests of the packages by which programs in Go use the service manager of Windows
// pass on an emulated host.
func TestServiceManager(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("takes a minute: PORTHOLE_JOIN=20348 or `make test-join`")
	}
	h := faulty{newHost(t, "win70", "20348")}
	h.upstream("windows/svc/mgr", "none", 3)
	h.upstream("windows/svc", "TestExample", 3) // it builds a program with Go, which the host does not have
}

// TestKilled: joins that are killed before and after each step, and left.
func TestKilled(t *testing.T) {
	if !long() && os.Getenv("PORTHOLE_JOIN") != "killed" {
		t.Skip("takes minutes: PORTHOLE_JOIN=killed or `make test-join`")
	}
	h := newHost(t, "win60", "20348")
	faulty{h}.leavesHalf(h.files())
	h.podWorks("after kills")
}

// waitsForNetwork: no pod starts while porthole-routes has not made the pod network of this boot, although
// containerd's CNI configuration of the boot before is there and containerd calls its network ready.
func (h *host) waitsForNetwork() {
	h.t.Helper()
	before := containerOf(h)
	found, _ := filepath.Glob(h.path("Program Files/Porthole/versions/*/porthole.exe")) // the pattern is right
	if len(found) != 1 {
		h.t.Fatalf("programs of the service porthole-routes: %q", found)
	}
	away := found[0] + ".away"
	if err := os.Rename(found[0], away); err != nil {
		h.t.Fatal(err)
	}
	h.must(3*time.Minute, "host", "reboot", h.name, "--dir", state)
	wait.NoError(h.t, shortly, "the node to say why it is not Ready", func() error {
		out, err := h.kubectl("get", "node", h.name, "-o",
			`jsonpath={.status.nodeInfo.bootID} {.status.conditions[?(@.type=="Ready")].message}`)
		if err == nil && (!strings.HasPrefix(out, "3 ") ||
			!strings.Contains(out, "the pod network of this boot is not made yet")) {
			err = errors.New(out)
		}
		return err
	})
	if _, err := os.Stat(h.path("etc/cni/net.d/10-porthole.conf")); err != nil {
		h.t.Errorf("the configuration of the boot before: %v", err)
	}
	if b, err := bootrecord.ReadBoot(h.path("ProgramData/Porthole"), "3"); err != nil || b.Pods.BootID != "3" ||
		b.Pods.Phase != bootrecord.Waiting {
		h.t.Errorf("the boot record: %s, %v", b, err)
	}
	if out := h.must(shortly, "host", "ctr", h.name, "tasks", "--dir", state); strings.TrimSpace(out) != "" ||
		containerOf(h) != before {
		h.t.Errorf("tasks without a pod network:\n%s", out)
	}

	if err := os.Rename(away, found[0]); err != nil {
		h.t.Fatal(err)
	}
	if out, code := h.exe("sc", "start", "porthole-routes"); code != 0 {
		h.t.Fatalf("starting porthole-routes: exit code %d: %s", code, out)
	}
	h.answers("when porthole-routes runs")
	h.ordered("3")
}

// containerOf returns the container of the host's pod.
func containerOf(h *host) string {
	h.t.Helper()
	out, err := h.kubectl("get", "pod", "web-"+h.name, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	if err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	return out
}

// refusals: what cannot be a node is refused with a cure, and nothing is changed.
func (h *host) refusals() {
	h.t.Helper()
	before := h.files()
	_, line := h.token()
	refused := func(what, check, text string, args []string) {
		h.t.Helper()
		r, code := h.report(args...)
		found := ""
		for _, c := range r.Checks {
			if c.Name == check {
				found = c.Message
			}
		}
		if code != 4 || !strings.Contains(found, text) {
			h.t.Errorf("%s: exit code %d, %s says %q", what, code, check, found)
		}
	}

	named := slices.Clone(line)
	named[len(named)-1] = "WIN_07"
	refused("a name that Kubernetes does not take", "Hostname", "win_07", named)
	wrong := slices.Clone(line)
	wrong[5] = "sha256:" + strings.Repeat("0", 64)
	refused("another authority", "Discovery", "sha256:", wrong)

	h.must(shortly, "host", "run", "--dir", state, h.name, "--", "sc", "create", "kubelet", "binPath=", `C:\nssm.exe`)
	refused("a kubelet of somebody else", "ExistingKubelet", "nssm.exe", line)
	h.must(shortly, "host", "run", "--dir", state, h.name, "--", "sc", "delete", "kubelet")
	if after := h.files(); !slices.Equal(after, before) {
		h.t.Errorf("refused joins left files: %v, before %v", after, before)
	}
}

// dryRun: a dry run names all steps and writes nothing.
func (h *host) dryRun(before []string) {
	h.t.Helper()
	_, line := h.token()
	r, code := h.report(append(line, "--dry-run")...)
	if code != 0 || r.Outcome != step.Planned || !slices.Contains(done(r), "service/kubelet") {
		h.t.Errorf("dry run: exit code %d, %s %s, steps %v", code, r.Outcome, r.Error, done(r))
	}
	if after := h.files(); !slices.Equal(after, before) {
		h.t.Errorf("a dry run left files: %v, before %v", after, before)
	}
	if s := h.service("kubelet"); s.Name != "" {
		h.t.Errorf("a dry run made the service %+v", s)
	}
}

// joins joins the host, with more flags than those of the line that was printed. The token must be nowhere afterwards.
func (h *host) joins(flags ...string) {
	h.t.Helper()
	secret, line := h.token()
	start := time.Now()
	out, code := h.exe(program, append(append(line, "--env", "GOMEMLIMIT=777MiB"), flags...)...)
	if code != 0 || !strings.Contains(out, "node "+h.name+" is Ready") {
		h.t.Fatalf("exit code %d\n%s", code, out)
	}
	h.t.Logf("join took %.1f s\n%s", time.Since(start).Seconds(), out)
	for _, name := range []string{"porthole-routes", "kube-proxy", "kubelet"} {
		if s := h.service(name); s.Status.State != scm.Running || s.Start != scm.StartAutomatic || !s.Failure.NonCrash {
			h.t.Errorf("service %s: %+v", name, s)
		}
	}

	h.hasEnvironment()

	err := filepath.WalkDir(filepath.Join(state, "hosts", h.name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".exe" || filepath.Ext(path) == ".dll" {
			return nil // gone meanwhile, or a program
		}
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), secret) {
			h.t.Errorf("the token is in %s", path)
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, l := range lines {
		if text, err := os.ReadFile(l); err == nil && strings.Contains(string(text), secret) {
			h.t.Errorf("the token is in the command line %q", text)
		}
	}
}

// hasEnvironment: the services have the variable of --env, as Go's runtime in them shows.
func (h *host) hasEnvironment() {
	h.t.Helper()
	client := http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DialContext: testkit.DialIn(platform.NetnsPath("porthole-" + h.name)),
			DisableKeepAlives: true}}
	for name, url := range map[string]string{"porthole-routes": "http://127.0.0.1:10261/metrics",
		"kube-proxy": "http://127.0.0.1:10249/metrics"} {
		wait.NoError(h.t, shortly, name+" to have its environment", func() error {
			answer, err := client.Get(url)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err == nil && !strings.Contains(string(text), "go_gc_gomemlimit_bytes 8.14743552e+08") {
				err = errors.New("GOMEMLIMIT is another")
			}
			return err
		})
	}
}

// pod is a web server with a service, on this node.
const pod = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-%[1]s", "labels": {"app": "web-%[1]s"}}, "spec": {"nodeName": "%[1]s", "containers": [
  {"name": "web", "image": "porthole/testapp:1", "args": ["serve", "--http", ":8080", "--tcp", ":7"]}]}},
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web-%[1]s"}, "spec": {"type": "NodePort", "selector": {"app": "web-%[1]s"},
  "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "echo", "port": 7, "targetPort": 7, "nodePort": 30007}]}}]}`

// podWorks makes the pod if it is not there, and asks it: by its service, for its log, and by a program in it.
func (h *host) podWorks(when string) {
	h.t.Helper()
	applyPod(h)
	name := "web-" + h.name
	h.answers(when)
	for what, args := range map[string][]string{"serving HTTP": {"logs", name},
		"Microsoft Windows": {"exec", name, "--", "cmd", "/c", "ver"}} {
		wait.NoError(h.t, shortly, when+": "+args[0], func() error {
			out, err := h.kubectl(args...)
			if err == nil && !strings.Contains(out, what) {
				err = fmt.Errorf("it printed %q", out)
			}
			return err
		})
	}
}

// applyPod makes the pod and its service if they are not there.
func applyPod(h *host) {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "pod.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, pod, h.name), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if out, err := h.kubectl("apply", "-f", file); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
}

// answers waits until the pod answers by its service, from the Linux node.
func (h *host) answers(when string) {
	h.t.Helper()
	wait.NoError(h.t, 2*time.Minute, when+": an answer of the service", func() error {
		ip, err := h.kubectl("get", "service", "web-"+h.name, "-o", "jsonpath={.spec.clusterIP}")
		if err != nil {
			return err
		}
		return h.get("http://" + ip + "/")
	})
}

// get asks the pod from the Linux node.
func (h *host) get(url string) error {
	client := http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DialContext: testkit.DialIn(platform.NetnsPath("porthole-lin01")),
			DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && !strings.Contains(string(text), "os=windows") {
		err = fmt.Errorf("it answered %q", text)
	}
	return err
}

// restarts is how often the pod's container was started again.
func (h *host) restarts() string {
	h.t.Helper()
	out, err := h.kubectl("get", "pod", "web-"+h.name, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	if err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	return out
}

// joinsAgain: a second join needs no token, finds all right and writes nothing.
func (h *host) joinsAgain() {
	h.t.Helper()
	old := h.times()
	r, code := h.report("join")
	if code != 0 || r.Outcome != step.Unchanged || len(done(r)) > 0 {
		h.t.Errorf("a second join: exit code %d, %s %s, steps %v", code, r.Outcome, r.Error, done(r))
	}
	h.t.Logf("a second join took %.2f s", r.Seconds)
	if now := h.times(); now != old {
		h.t.Errorf("a second join wrote files:\n%s\nbefore\n%s", now, old)
	}
}

// times are the files that join makes, with the times of their last change.
func (h *host) times() string {
	var all strings.Builder
	for _, file := range h.files() {
		if st, err := os.Stat(h.path(file)); err == nil && !strings.Contains(file, "/logs/") &&
			!strings.Contains(file, "/log/") && !strings.Contains(file, "/pods/") {
			fmt.Fprintln(&all, file, st.ModTime().UnixNano())
		}
	}
	return all.String()
}

// closed: folders with secrets are closed to others. Wine shows access lists as permission bits.
func (h *host) closed() {
	h.t.Helper()
	for _, dir := range []string{"ProgramData/Porthole", "ProgramData/Porthole/logs", "etc/kubernetes",
		"var/lib/kubelet/pki"} {
		st, err := os.Stat(h.path(dir))
		if err != nil || st.Mode().Perm()&0o007 != 0 {
			h.t.Errorf("%s is open to others: %v, %v", dir, st.Mode(), err)
		}
	}
	for _, file := range []string{"etc/kubernetes/kubelet.conf", "var/lib/kubelet/pki/kubelet-client-current.pem"} {
		if st, err := os.Stat(h.path(file)); err != nil || st.Mode().Perm()&0o007 != 0 {
			h.t.Errorf("%s is open to others: %v, %v", file, st, err)
		}
	}
}

// mends: after each change the next join carries out exactly the steps of what was changed.
func (h *host) mends() {
	h.t.Helper()
	for what, c := range map[string]struct {
		change func() error
		want   []string
	}{
		"a plugin is gone": {func() error { return os.Remove(h.path("opt/cni/bin/win-bridge.exe")) },
			[]string{"cni-programs"}},
		"a rule of the firewall is gone": {func() error {
			h.exe("netsh", "advfirewall", "firewall", "delete", "rule", "name=Porthole: TCP 10250 (kubelet)")
			return nil
		}, []string{"firewall"}},
		"a folder is open": {func() error { return os.Chmod(h.path("etc/kubernetes"), 0o755) }, []string{"access"}},
		"a service is gone": {func() error {
			h.exe("sc", "stop", "kube-proxy")
			wait.True(h.t, shortly, "kube-proxy to stop",
				func() bool { return h.service("kube-proxy").Status.State == scm.Stopped })
			h.exe("sc", "delete", "kube-proxy")
			return nil
		}, []string{"service/kube-proxy", "running/kube-proxy"}},
		"a configuration is another": {func() error {
			return os.WriteFile(h.path("etc/kubernetes/kube-proxy.yaml"), []byte("x"), 0o600)
		}, []string{"proxy-config"}},
	} {

		if err := c.change(); err != nil {
			h.t.Fatalf("%s: %v", what, err)
		}
		r, code := h.report("join")
		if got := done(r); code != 0 || !subset(c.want, got) || !subset(got, append(c.want, "running/kube-proxy")) {
			h.t.Errorf("%s: exit code %d, %s, steps %v, want %v", what, code, r.Error, got, c.want)
		}
	}
	h.answers("after repairs")
}

func subset(part, all []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(all, s) })
}

// comesBack: a killed service is another process soon, and the pod goes on.
func (h *host) comesBack() {
	h.t.Helper()
	before := h.restarts()
	for name, log := range map[string]string{"porthole-routes": `logs\routes.log`, "kube-proxy": `logs\kube-proxy.log`,
		"kubelet": `logs\kubelet.log`} {
		old := h.service(name).Status.PID

		pids, err := platform.NetnsPids(platform.NetnsPath("porthole-" + h.name))
		if err != nil {
			h.t.Fatal(err)
		}
		for _, pid := range pids {
			// gone meanwhile: not the program
			if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(args), log) {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					h.t.Fatal(err)
				}
			}
		}
		wait.True(h.t, shortly, name+" to run again", func() bool {
			s := h.service(name)
			return s.Status.State == scm.Running && s.Status.PID != old
		})
	}
	h.answers("after kills")
	if now := h.restarts(); now != before {
		h.t.Errorf("the pod was restarted: %s, before %s", now, before)
	}
}

// reboots: the node comes back by itself.
func (h *host) reboots() {
	h.t.Helper()
	boot := func() string {
		out, err := h.kubectl("get", "node", h.name, "-o",
			`jsonpath={.status.nodeInfo.bootID} {.status.conditions[?(@.type=="Ready")].status}`)
		if err != nil {
			return err.Error()
		}
		return out
	}
	if got := boot(); got != "1 True" {
		h.t.Errorf("before the reboot the node has %q", got)
	}
	h.ordered("1")
	out := h.must(3*time.Minute, "host", "reboot", h.name, "--dir", state)
	start := time.Now()
	wait.True(h.t, 2*time.Minute, "the node to be Ready in its second boot", func() bool { return boot() == "2 True" })
	h.t.Logf("%sReady %.1f s after the boot", out, time.Since(start).Seconds())
	h.podWorks("after the reboot")
	h.ordered("2")

	if r, code := h.report("join"); code != 0 || r.Outcome != step.Unchanged {
		h.t.Errorf("after a reboot a join changes %v: %s", done(r), r.Error)
	}
}

// ordered: by the node's boot record the network was right, and then pods could start; and so the node tells its
// administrator.
func (h *host) ordered(boot string) {
	h.t.Helper()
	var b bootrecord.Boot
	wait.NoError(h.t, shortly, "the boot record of boot "+boot, func() (err error) {
		if b, err = bootrecord.ReadBoot(h.path("ProgramData/Porthole"), boot); err != nil {
			return err
		}
		for _, r := range []*bootrecord.Record{b.Network, b.Services, b.Pods} {
			if r == nil || r.BootID != boot || r.Phase != bootrecord.Ready {
				return fmt.Errorf("%s", b)
			}
		}
		return nil
	})
	if b.Pods.Since.Before(b.Network.Since) {
		h.t.Errorf("pods were let in before there was a network: %s", b)
	}
	if out, _ := h.exe(program, "status"); !strings.Contains(out, "boot "+boot+": pod network 10.244.") ||
		!strings.Contains(out, ", pods ready since ") {
		h.t.Errorf("porthole status:\n%s", out)
	}
}

// leaves: nothing is left but what was there before the join.
func (h *host) leaves(before, routes []string) {
	h.t.Helper()
	if out := (faulty{h}).leavesNothing(before, routes); !strings.Contains(out, "kubectl delete node "+h.name) {
		h.t.Errorf("leave does not say that the Node is left:\n%s", out)
	}
	if out, err := h.kubectl("delete", "node/"+h.name, "pod/web-"+h.name, "service/web-"+h.name,
		"--force"); err != nil {
		h.t.Errorf("%v: %s", err, out)
	}
}

// leavesNothing: after leave nothing of join is on the host; a second leave does nothing. It returns what the first
// one printed.
func (h faulty) leavesNothing(before, routes []string) (out string) {
	h.t.Helper()
	out, code := h.exe(program, "leave")
	if code != 0 || !strings.Contains(out, "nothing of Porthole is left") {
		h.t.Errorf("leave: exit code %d\n%s", code, out)
	}
	if after := h.files(); !slices.Equal(after, before) {
		h.t.Errorf("files: %v, before %v", after, before)
	}
	if after := h.routes(); !slices.Equal(after, routes) {
		h.t.Errorf("routes: %v, before %v", after, routes)
	}

	for _, s := range h.services() {
		if s.Name != "containerd" {
			h.t.Errorf("service %s is left", s.Name)
		}
	}
	if dump := h.must(shortly, "host", "hns", h.name, "dump", "--dir", state); strings.Contains(dump, "porthole") ||
		strings.Contains(dump, "LoadBalancer") {
		h.t.Errorf("HNS has\n%s", dump)
	}
	if again, code := h.exe(program, "leave"); code != 0 || !strings.Contains(again, "nothing to do") {
		h.t.Errorf("a second leave: exit code %d\n%s", code, again)
	}
	return out
}
