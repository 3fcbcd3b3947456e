package joinwindows

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// faulty is a host on which something fails.
type faulty struct{ *host }

// logOf has the log file of each service, by its name. It is in the command line of the service, by which its process
// is found.
var logOf = map[string]string{"porthole-routes": `logs\routes.log`, "kube-proxy": `logs\kube-proxy.log`,
	"kubelet": `logs\kubelet.log`}

// long reports whether all is tried: `make test-join`.
func long() bool { return os.Getenv("PORTHOLE_JOIN") == "long" }

// manager makes the next calls to the service manager fail.
func (h faulty) manager(faults ...string) {
	h.t.Helper()
	args := []string{"host", "services", h.name, "--dir", state}
	for _, f := range faults {
		args = append(args, "--fault", f)
	}
	h.must(shortly, args...)
}

// denied: a service manager that refuses is named, with what to do, and the services before stay.
func (h faulty) denied() {
	h.t.Helper()
	_, line := h.token()
	h.manager("open:kubelet:5:2") // of the checks, and of the step
	r, code := h.report(line...)
	if code != 1 || r.Outcome != step.Failed || !strings.Contains(r.Error, "step service/kubelet") ||
		!strings.Contains(r.Error, "Run as administrator") {
		h.t.Errorf("a denied service: exit code %d, %s: %s", code, r.Outcome, r.Error)
	}
}

// processes are the host's that have a text in their command line.
func (h faulty) processes(text string) (pids []int) {
	h.t.Helper()
	all, err := platform.NetnsPids(platform.NetnsPath("porthole-" + h.name))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, pid := range all {
		// gone meanwhile: not the program
		if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(args), text) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to the processes of a service.
func (h faulty) signal(name string, s unix.Signal) {
	h.t.Helper()
	for _, pid := range h.processes(logOf[name]) {
		if err := unix.Kill(pid, s); err != nil && err != unix.ESRCH {
			h.t.Fatal(err)
		}
	}
}

// once: there is one process of each service.
func (h faulty) once(when string) {
	h.t.Helper()
	for name, log := range logOf {
		if pids := h.processes(log); len(pids) != 1 {
			h.t.Errorf("%s: processes of %s: %v", when, name, pids)
		}
	}
}

// hangs: a service with another program does not stop. join ends its process, and starts the right one.
func (h faulty) hangs() {
	h.t.Helper()
	if out, code := h.exe(program, "service", "install", "kube-proxy", "--",
		`--config=C:\etc\kubernetes\kube-proxy.yaml`); code != 0 {
		h.t.Fatalf("service install: exit code %d: %s", code, out)
	}
	h.signal("kube-proxy", unix.SIGSTOP)
	r, code := h.report("join")
	if got := done(r); code != 0 || !subset([]string{"service/kube-proxy"}, got) ||
		!subset(got, []string{"service/kube-proxy", "running/kube-proxy"}) {
		h.t.Errorf("a service that hangs: exit code %d, %s, steps %v", code, r.Error, got)
	}
	h.t.Logf("a service that hangs: join took %.1f s", r.Seconds)
	if s := h.service("kube-proxy"); s.Status.State != scm.Running || len(s.Failure.Actions) == 0 ||
		!strings.Contains(s.Path, `\versions\`) {
		h.t.Errorf("after a join the service that hung is %+v", s)
	}
	h.once("after a service hung")
}

// ordered removes the place of the kubelet in the order of a shutdown: exactly its step is carried out.
func (h faulty) ordered() {
	h.t.Helper()
	if out, code := h.exe("reg", "delete", `HKLM\SYSTEM\CurrentControlSet\Control`, "/v", "PreshutdownOrder",
		"/f"); code != 0 {
		h.t.Fatalf("reg: exit code %d: %s", code, out)
	}
	if r, code := h.report("join"); code != 0 || !slices.Equal(done(r), []string{"preshutdown-order"}) {
		h.t.Errorf("without the order at shutdown: exit code %d, %s, steps %v", code, r.Error, done(r))
	}
}

// killedAgain kills all services at the same time, again and again: they come back with the delays of their recovery
// actions, the pod notices nothing, and HNS is written to by nobody.
func (h faulty) killedAgain(times int) {
	h.t.Helper()
	before := h.restarts()
	h.must(shortly, "host", "hns", h.name, "stats", "reset", "--dir", state)
	delays := []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}
	for i := range times {
		old := map[string]uint32{}
		failed := h.service("kubelet").Failures
		for name := range logOf {
			old[name] = h.service(name).Status.PID
		}
		for name := range logOf {
			h.signal(name, unix.SIGKILL)
		}

		start, delay := time.Now(), delays[min(failed, len(delays)-1)]
		wait.True(h.t, 2*time.Minute, "the services to run again", func() bool {
			return !slices.ContainsFunc(h.services(), func(l scm.Listed) bool {
				return logOf[l.Name] != "" && (l.Status.State != scm.Running || l.Status.PID == old[l.Name])
			})
		})
		took := time.Since(start)
		if took < delay {
			h.t.Errorf("kill %d: the services were back after %v, before the delay of %v", i+1, took, delay)
		}
		h.t.Logf("kill %d: back after %v, delay %v", i+1, took.Round(10*time.Millisecond), delay)
	}

	h.once("after kills")
	h.answers("after kills")
	if now := h.restarts(); now != before {
		h.t.Errorf("the pod was restarted: %s, before %s", now, before)
	}
	if n := upgrader(h).writes(); n > 0 {
		h.t.Errorf("HNS was written to %d times", n)
	}
}

// alone restarts one program at a time: porthole-routes, HNS, containerd.exe. The pod stays, and the other services
// are the processes of before.
func (h faulty) alone() {
	h.t.Helper()
	before := h.restarts()
	pids := func(but string) string {
		var list []string
		for name := range logOf {
			if name != but {
				list = append(list, fmt.Sprint(name, h.service(name).Status.PID))
			}
		}
		slices.Sort(list)
		return strings.Join(list, " ")
	}

	for what, restart := range map[string]func(){
		"porthole-routes": func() {
			h.exe("sc", "stop", "porthole-routes")
			wait.True(h.t, shortly, "porthole-routes to stop",
				func() bool { return h.service("porthole-routes").Status.State == scm.Stopped })
			h.exe("sc", "start", "porthole-routes")
			wait.True(h.t, shortly, "porthole-routes to run",
				func() bool { return h.service("porthole-routes").Status.State == scm.Running })
		},
		"hns": func() { h.must(shortly, "host", "hns", h.name, "service", "stopped", "for=2000", "--dir", state) },
		"containerd": func() {
			old := h.service("containerd").Status.PID
			for _, pid := range h.processes("containerd.exe") {
				if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !strings.Contains(string(args),
					"shim") {
					_ = unix.Kill(pid, unix.SIGKILL) // gone meanwhile: it is what was wanted
				}
			}
			wait.True(h.t, shortly, "containerd to run again", func() bool {
				s := h.service("containerd").Status
				return s.State == scm.Running && s.PID != old
			})
		},
	} {

		others := pids(what)
		restart()
		h.answers("after " + what + " was restarted")
		if now := pids(what); now != others {
			h.t.Errorf("after %s was restarted the services are %s, before %s", what, now, others)
		}
		if now := h.restarts(); now != before {
			h.t.Errorf("after %s was restarted the pod was too: %s, before %s", what, now, before)
			before = now
		}
	}
}

// away keeps the API server from the host until the function that it returns is called.
func (h faulty) away() (back func()) {
	h.t.Helper()
	in := func(script string) {
		h.t.Helper()
		// That of the root folder, as the host's is: nft 1.0.6 (Debian 12) crashes where a newer one has made tables.
		cmd := exec.Command("ip", "netns", "exec", "porthole-"+h.name,
			filepath.Join(bin, "inroot"), filepath.Join(bin, "root"), "/usr/sbin/nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("nft: %v: %s", err, out)
		}
	}
	in("table inet test-away { chain output { type filter hook output priority 0; tcp dport 6443 drop; }; }\n")
	return func() { in("delete table inet test-away\n") }
}

// rebootsAgain reboots the host n times. HNS loses another choice of things each time, the power is cut in every
// second one, and in a third of them the API server is away at first. Each time the node comes back by itself, in the
// right order, with its pod and the routes of before.
func (h faulty) rebootsAgain(first, n int, routes []string) {
	h.t.Helper()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	h.t.Logf("%d reboots, seed %d", n, seed)
	for boot := first; boot < first+n; boot++ {
		args := []string{"host", "reboot", h.name, "--dir", state, "--profile",
			[]string{"listed", "default", "all"}[random.IntN(3)]}
		for _, thing := range []string{"Network", "Endpoint", "LoadBalancer", "RemoteEndpoint", "Rule"} {
			if random.IntN(3) == 0 {
				args = append(args, "--lose", thing)
			}
		}
		if boot%2 == 0 {
			args = append(args, "--power-cut")
		}
		back := func() {}
		if boot%3 == 0 {
			back = h.away()
		}
		out := h.must(3*time.Minute, args...)

		start := time.Now()
		if boot%3 == 0 { // the network of the node is made from memory
			wait.NoError(h.t, 2*time.Minute, "the pod network without the API server",
				func() error { return h.networkOf(boot) })
			back()
		}
		wait.True(h.t, 2*time.Minute, fmt.Sprintf("the node to be Ready in boot %d", boot), func() bool {
			got, err := h.kubectl("get", "node", h.name, "-o",
				`jsonpath={.status.nodeInfo.bootID} {.status.conditions[?(@.type=="Ready")].status}`)
			return err == nil && got == fmt.Sprintf("%d True", boot)
		})
		took := time.Since(start)
		h.answers(fmt.Sprintf("after boot %d", boot))
		h.host.ordered(fmt.Sprint(boot))
		if now := h.routes(); !subset(routes, now) {
			h.t.Errorf("boot %d: routes %v, before the join %v", boot, now, routes)
		}
		if orphans := h.orphans(); len(orphans) > 0 {
			h.t.Errorf("boot %d: endpoints of no pod: %v", boot, orphans)
		}
		h.t.Logf("boot %d: Ready after %.1f s; %s; %s", boot, took.Seconds(), strings.Join(args[5:], " "),
			strings.ReplaceAll(strings.TrimSpace(out), "\n", ", "))
	}
}

// networkOf returns nil when the pod network of a boot is made, by the boot record.
func (h faulty) networkOf(boot int) error {
	b, err := bootrecord.ReadBoot(h.path("ProgramData/Porthole"), fmt.Sprint(boot))
	if err == nil && (b.Network == nil || b.Network.BootID != fmt.Sprint(boot) || b.Network.Phase != bootrecord.Ready) {
		err = fmt.Errorf("%s", b)
	}
	return err
}

// orphans are the addresses of HNS endpoints on this host that are neither the host's nor a pod's.
func (h faulty) orphans() (list []string) {
	h.t.Helper()
	var dump struct {
		Endpoints []struct {
			Name             string
			Flags            int
			IpConfigurations []struct{ IpAddress string }
		}
	}
	if err := json.Unmarshal([]byte(h.must(shortly, "host", "hns", h.name, "dump", "-o", "json", "--dir", state)),
		&dump); err != nil {
		h.t.Fatal(err)
	}
	pods, err := h.kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName="+h.name, "-o",
		"jsonpath={.items[*].status.podIP}")
	if err != nil {
		h.t.Fatalf("%v: %s", err, pods)
	}

	const remote = 1 // of another node (hcn's EndpointFlagsRemoteEndpoint)
	for _, e := range dump.Endpoints {
		if e.Flags&remote != 0 || strings.HasPrefix(e.Name, "porthole") || len(e.IpConfigurations) == 0 {
			continue
		}
		if ip := e.IpConfigurations[0].IpAddress; !slices.Contains(strings.Fields(pods), ip) {
			list = append(list, e.Name+" "+ip)
		}
	}
	return list
}

// leavesHalf ends joins before and after each step. The same line goes on each time; each fifth half is left instead,
// and nothing is left then. At the end the machine is a node.
func (h faulty) leavesHalf(before []string) {
	h.t.Helper()
	failing := h.failing()
	_, line := h.token()
	r, code := h.report(append(slices.Clone(line), "--dry-run")...)
	if code != 0 {
		h.t.Fatalf("dry run: exit code %d: %s", code, r.Error)
	}
	var points []string
	for _, s := range r.Steps {
		if s.Result == "planned" {
			points = append(points, s.ID+"/before", s.ID+"/after")
		}
	}

	for i, p := range points {
		h.endsAt(failing, p, line...)
		if i%5 != 3 { // each half that is left takes a whole join
			continue
		}
		out, code := h.exe(program, "leave")
		if code != 0 || !strings.Contains(out, "nothing of Porthole is left") {
			h.t.Errorf("leave after a kill at %s: exit code %d\n%s", p, code, out)
		}
		if after := h.files(); !slices.Equal(after, before) {
			h.t.Errorf("leave after a kill at %s: files %v, before %v", p, after, before)
		}
		if out, err := h.kubectl("delete", "node", h.name, "--ignore-not-found"); err != nil { // as leave says
			h.t.Errorf("%v: %s", err, out)
		}
	}
	if r, code := h.report(line...); code != 0 || r.Outcome != step.Joined {
		h.t.Fatalf("after kills at %d points: exit code %d, %s %s", len(points), code, r.Outcome, r.Error)
	}
	h.once("after kills of join")
	h.t.Logf("%d points", len(points))
}

// endsAt runs a program that ends itself at a point.
func (h faulty) endsAt(failing, point string, args ...string) {
	h.t.Helper()
	line := "set PORTHOLE_FAILPOINT=" + point + "&& " + failing + " " + strings.Join(args, " ")
	if out, code := h.exe("cmd", "/c", line); code == 0 {
		h.t.Errorf("it did not end at %s: %s", point, out)
	}
}

// failing builds the programs of an archive that end at a point, in a folder of C:.
func (h faulty) failing() string {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "porthole.exe")
	build := exec.Command("go", "build", "-tags=grpcnotrace,failpoint", "-ldflags=-s -w", "-o", file,
		"../../cmd/porthole")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		h.t.Fatalf("building porthole.exe: %v\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("failing/porthole.exe", string(data))
	for _, name := range []string{"kube-proxy.exe", "win-bridge.exe"} {
		if data, err = os.ReadFile(filepath.Join(bin, "windows", name)); err != nil {
			h.t.Fatal(err)
		}
		h.write("failing/"+name, string(data))
	}
	return `C:\failing\porthole.exe`
}

// upstream runs the tests that golang.org/x/sys has of a package for services, unchanged: they judge the service
// manager.
func (h faulty) upstream(name, skip string, passed int) {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), filepath.Base(name)+".test.exe")
	build := exec.Command("go", "test", "-c", "-o", file, "golang.org/x/sys/"+name)
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		h.t.Fatalf("building the tests of %s: %v\n%s", name, err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("tests/"+filepath.Base(file), string(data))
	// tests that install services need the variable
	out, code := h.exe("cmd", "/c",
		`set GO_BUILDER_NAME=here&&C:\tests\`+filepath.Base(file)+" -test.v -test.skip=^^"+skip+"$")
	if n := strings.Count(out, "--- PASS: "); code != 0 || n != passed {
		h.t.Errorf("%s: exit code %d, %d of %d tests pass\n%s", name, code, n, passed, out)
	}
}
