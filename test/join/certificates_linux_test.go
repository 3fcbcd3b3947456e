package join

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// shortLife is how long the certificates of TestCertificates live. Their kubelets renew them when a fifth is left,
// about.
const shortLife = 90 * time.Second

// TestCertificates: on a Linux and a Windows node whose certificates live 90 s, these are renewed again and again.
// When the first ones have long expired and the API server has dropped all connections, kubelet, routes and service
// proxy go on with the new ones, in the processes of before, and a pod has answered all the time. A certificate that
// expires while its kubelet is off is named by a join, and replaced by one with a token.
func TestCertificates(t *testing.T) {
	if long := os.Getenv("PORTHOLE_JOIN"); long != "long" && long != "certificates" {
		t.Skip("takes 8 minutes: PORTHOLE_JOIN=certificates, or `make test-join`")
	}
	cp := plane{signing: shortLife}.start(t, "cp07", "10.99.0.27").at(t)
	cp.hasNetwork("host-gateway", "")
	serveImages(t)
	line := cp.joinLine()
	w := newWindowsMachine(t, "win71")
	if r := w.run(windowsProgram, line...); r.code != 0 {
		t.Fatalf("win71: code %d: %s%s", r.code, r.out, r.err)
	}
	w.pods(cp)
	m := cp.fresh("lin91", "10.99.0.91")
	m.supervise()
	line = append(line, "--patches", m.patches(), "--timeout", "3m")
	if r := m.porthole(line...); r.code != 0 {
		t.Fatalf("lin91: code %d: %s%s", r.code, r.out, r.err)
	}

	nodes := shortLived{m.at(t), w, cp}
	nodes.renewed(2)
	nodes.goOn()
	nodes.expire(line)
}

// shortLived are two nodes with short certificates.
type shortLived struct {
	linux   follower
	windows *windowsMachine
	cp      follower
}

const pairFile = "kubelet/pki/kubelet-client-current.pem"

// pairs are the certificates of both nodes.
func (n shortLived) pairs() [2]string {
	windows, _ := os.ReadFile(n.windows.path("var/lib/" + pairFile)) // one that is being replaced differs later
	return [2]string{n.linux.run("cat", "/var/lib/"+pairFile).out, string(windows)}
}

// processes are those of both nodes that may not be started again.
func (n shortLived) processes() string {
	var b strings.Builder
	b.WriteString(n.linux.ok("bash", "-c",
		`for p in /proc/[0-9]*; do grep -qzxE 'kubelet|routes' $p/cmdline 2>/dev/null && [ $p/exe -ef /usr/lib/porthole/porthole -o $p/exe -ef /usr/lib/porthole/porthole-routes ] && echo $p; done; true`))
	for _, name := range windowsServices {
		fmt.Fprintln(&b, name, n.windows.service(name).Status.PID)
	}
	return b.String()
}

// renewed waits until both nodes have had so many other certificates.
func (n shortLived) renewed(times int) {
	n.linux.t.Helper()
	before, start := n.processes(), time.Now()
	for i := range times {
		old := n.pairs()
		wait.True(n.linux.t, 2*shortLife, fmt.Sprintf("certificate %d of both nodes to be renewed", i+1), func() bool {
			now := n.pairs()
			return now[0] != old[0] && now[1] != old[1] && now[0] != "" && now[1] != ""
		})
		n.linux.t.Logf("both nodes have renewed their certificates %d times after %.0f s", i+1,
			time.Since(start).Seconds())
	}
	if now := n.processes(); now != before {
		n.linux.t.Errorf("the processes are\n%s\nbefore\n%s", now, before)
	}
}

// goOn restarts the API server: all connect again, which the first certificates no longer allow. A service and a Node
// that are made then get where they must, and the Windows pod answers all the time.
func (n shortLived) goOn() {
	t, cp := n.linux.t, n.cp
	t.Helper()
	before := n.processes()
	url, stop, lost := "http://"+cp.podIP("web-"+n.windows.name)+":8080/", make(chan struct{}), make(chan int)
	go func() {
		failed := 0
		for {
			if r := cp.run("curl", "-fsS", "-m", "5", url); r.code != 0 {
				failed++
			}
			select {
			case <-stop:
				lost <- failed
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()

	cp.ok("bash", "-c",
		`for p in /proc/[0-9]*; do [ "$(tr '\0' '\n' < $p/cmdline 2>/dev/null | head -1)" = kube-apiserver ] && kill -9 ${p#/proc/}; done; true`)
	wait.True(t, 2*time.Minute, "the API server to answer again",
		func() bool { return cp.run(cp.kubeadm, "kubectl", "get", "--raw", "/readyz").code == 0 })
	start := time.Now()
	n.windows.serves(cp, "late")
	file := filepath.Join(cp.dir, "ghost.json")
	must(t, os.WriteFile(file,
		[]byte(
			`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}, "spec": {"podCIDR": "10.244.99.0/24", "podCIDRs": ["10.244.99.0/24"]}}`), 0o600))
	cp.kubectl("apply", "-f", file)
	cp.kubectl("patch", "node", "ghost", "--subresource=status", "-p",
		`{"status": {"addresses": [{"type": "InternalIP", "address": "10.99.0.99"}]}}`)
	wait.NoError(t, 5*time.Minute, "both nodes to have the route to a new node", func() error {
		const route = "10.244.99.0/24 via 10.99.0.99"
		linux := n.linux.ok("ip", "route")
		windows, err := exec.Command("nsenter", "--net="+platform.NetnsPath("porthole-"+n.windows.name), "ip", "-4",
			"route").CombinedOutput()
		if err == nil && (!strings.Contains(linux, route) || !strings.Contains(string(windows), route)) {
			err = errors.New(linux + string(windows))
		}
		return err
	})
	for _, name := range []string{n.linux.name, n.windows.name} {
		wait.NoError(t, 2*time.Minute, "a heartbeat of "+name, func() error { return cp.beats(name, start) })
	}
	t.Logf("after the API server was restarted all follow it, with renewed certificates, within %.1f s",
		time.Since(start).Seconds())
	close(stop)
	if failed := <-lost; failed > 0 {
		t.Errorf("the Windows pod did not answer %d times", failed)
	}
	if now := n.processes(); now != before {
		t.Errorf("the processes are\n%s\nbefore\n%s", now, before)
	}
}

// expire stops both kubelets until their certificates have expired.
func (n shortLived) expire(line []string) {
	t := n.linux.t
	t.Helper()
	must(t, syscall.Kill(-n.linux.supervisor.Process.Pid, syscall.SIGTERM))
	n.windows.run("sc", "stop", "kubelet")
	wait.True(t, time.Minute, "kubelet.exe to stop",
		func() bool { return n.windows.service("kubelet").Status.State == scm.Stopped })
	wait.True(t, 3*shortLife, "both certificates to expire", func() bool { // by the clock of openssl
		return n.linux.run("openssl", "x509", "-checkend", "0", "-noout", "-in", "/var/lib/"+pairFile).code == 1 &&
			n.linux.run("openssl", "x509", "-checkend", "0", "-noout", "-in",
				n.windows.path("var/lib/"+pairFile)).code == 1
	})

	const text = "the certificate of this node cannot be used (it ended at "
	if r := n.linux.porthole("join"); r.code != 4 || !strings.Contains(r.out, text) {
		t.Errorf("lin91, expired, without a token: code %d: %s%s", r.code, r.out, r.err)
	}
	if r := n.windows.run(windowsProgram, "join"); r.code != 4 || !strings.Contains(r.out, text) {
		t.Errorf("win71, expired, without a token: code %d: %s%s", r.code, r.out, r.err)
	}
	n.linux.supervise()
	start := time.Now()
	report, r := n.linux.report(line...)
	if got := doneIn(report); r.code != 0 || report.Outcome != step.Joined || got != "key certificate" {
		t.Errorf("lin91, expired, with a token: code %d, %s, steps %s: %s", r.code, report.Outcome, got, report.Error)
	}
	report, code := n.windows.report(n.cp.joinLine()...)
	if got := doneIn(report); code != 0 || report.Outcome != step.Joined ||
		got != "key certificate running/kubelet" && got != "key certificate running/kubelet ready" {
		t.Errorf("win71, expired, with a token: code %d, %s, steps %s: %s", code, report.Outcome, got, report.Error)
	}
	for _, name := range []string{n.linux.name, n.windows.name} {
		wait.NoError(t, 2*time.Minute, "a heartbeat of "+name, func() error { return n.cp.beats(name, start) })
	}
}

// doneIn are the steps that a report calls done.
func doneIn(r step.Report) string {
	var list []string
	for _, s := range r.Steps {
		if s.Result == "done" {
			list = append(list, s.ID)
		}
	}
	return strings.Join(list, " ")
}
