package joinwindows

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// TestShutdown: a pod that needs 8 s to end gets them when its node reboots. Then upstream's kubelet.exe, as the
// service kubelet of the same node, does the same under the same service manager, and a join brings ours back.
func TestShutdown(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("takes minutes: PORTHOLE_JOIN=20348 or `make test-join`")
	}
	h := newHost(t, "win90", "20348")
	h.write("patches/kubeletconfiguration.yaml", "shutdownGracePeriod: 40s\nshutdownGracePeriodCriticalPods: 10s\n")
	h.joins("--patches", `C:\patches`)
	closing{h}.reboot(2)
	closing{h}.told()

	upstream := filepath.Join(bin, "bundle", "windows", "kubelet.exe")
	if _, err := os.Stat(upstream); err != nil {
		t.Fatalf("%v: run `make upstream-kubelet` first", err)
	}
	before := h.service("kubelet").Path
	closing{h}.becomes(upstream)
	closing{h}.reboot(3)
	if r, code := h.report("join"); code != 0 || !subset([]string{"service/kubelet"}, done(r)) ||
		!subset(done(r), []string{"service/kubelet", "running/kubelet", "preshutdown-order"}) {
		t.Errorf("after upstream's kubelet a join: exit code %d, %s, steps %v", code, r.Error, done(r))
	}
	if now := h.service("kubelet").Path; now != before {
		t.Errorf("the kubelet is %s again, before %s", now, before)
	}
	h.podWorks("with our kubelet again")
	if r, code := h.report("join"); code != 0 || r.Outcome != step.Unchanged {
		t.Errorf("a join after that changes %v: %s", done(r), r.Error)
	}
}

// closing is a host that reboots while a pod takes its time.
type closing struct{ *host }

// slowPod has a hook that runs a program for 8 s before the pod is told to end.
const slowPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "slow-%[2]d"}, "spec": {"nodeName": "%[1]s", "terminationGracePeriodSeconds": 30, "automountServiceAccountToken": false, "containers": [
  {"name": "c", "image": "porthole/testapp:1", "args": ["serve", "--http", ":8080"], "lifecycle": {"preStop": {"exec": {"command": ["C:\\testapp.exe", "sleep", "8"]}}}}]}}`

const slowTime = 8 * time.Second

// reboot runs a pod that takes slowTime to end, and reboots the host. The kubelet waits for the pod's program and
// preStop hook, tells the API server that the pod has ended and that the node shuts down, and ends. Then the host
// starts again, and the node becomes Ready by itself.
func (h closing) reboot(boot int) {
	h.t.Helper()
	name := fmt.Sprintf("slow-%d", boot)
	file := filepath.Join(h.t.TempDir(), name+".json")
	if err := os.WriteFile(file, fmt.Appendf(nil, slowPod, h.name, boot), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if out, err := h.kubectl("apply", "-f", file); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	wait.NoError(h.t, 2*time.Minute, "the slow pod to run", func() error {
		out, err := h.kubectl("logs", name)
		if err == nil && strings.Contains(out, "serving HTTP") {
			return nil
		}
		pod, _ := h.kubectl("describe", "pod", name) // only for the text
		return fmt.Errorf("%v: %s\n%s", err, out, pod)
	})

	var r struct{ Services []scm.Ended }
	out := h.must(3*time.Minute, "host", "reboot", h.name, "-o", "json", "--dir", state)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	i := slices.IndexFunc(r.Services, func(e scm.Ended) bool { return e.Service == "kubelet" })
	if i < 0 || r.Services[i].Phase != "preshutdown" || r.Services[i].Took < slowTime ||
		r.Services[i].Took > 40*time.Second {
		h.t.Errorf("boot %d: services ended as %+v; the pod needs %v", boot, r.Services, slowTime)
	} else {
		h.t.Logf("boot %d: the kubelet ended after %.1f s", boot, r.Services[i].Took.Seconds())
	}

	out, err := h.kubectl("get", "pod", name, "-o",
		`jsonpath={.status.phase} {.status.reason} {.status.containerStatuses[0].state.terminated.exitCode}`)
	if err != nil || !strings.HasSuffix(out, " 0") || strings.HasPrefix(out, "Running") {
		h.t.Errorf("boot %d: the API server says of the pod %q, %v", boot, out, err)
	}
	logs, _ := filepath.Glob(h.path("var/log/pods/default_" + name + "_*/c/0.log")) // the pattern is right
	text := ""
	for _, l := range logs {
		data, _ := os.ReadFile(l) // what is missing fails below
		text += string(data)
	}
	if !strings.Contains(text, "stopping on") || !strings.Contains(text, " stopped") {
		h.t.Errorf("boot %d: the pod's program did not end by itself: %s", boot, text)
	}

	wait.NoError(h.t, 3*time.Minute, fmt.Sprintf("the node to be Ready in boot %d", boot), func() error {
		got, err := h.kubectl("get", "node", h.name, "-o",
			`jsonpath={.status.nodeInfo.bootID} {.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && got == fmt.Sprintf("%d True", boot) {
			return nil
		}
		node, _ := h.kubectl("describe", "node", h.name) // only for the text
		return fmt.Errorf("%v: %s; the service is %+v\n%s", err, got, h.service("kubelet"), node)
	})
	if out, err := h.kubectl("delete", "pod", name, "--force"); err != nil {
		h.t.Errorf("%v: %s", err, out)
	}
}

// told: the node has an event of its shutdown. Upstream's kubelet ended before its own event had been sent.
func (h closing) told() {
	h.t.Helper()
	out, err := h.kubectl("get", "events", "-A", "--field-selector", "reason=NodeShutdown,involvedObject.name="+h.name,
		"-o", "jsonpath={.items[*].message}")
	if err != nil || !strings.Contains(out, "preshutdown") {
		h.t.Errorf("events of the shutdown: %q, %v", out, err)
	}
}

// becomes makes another kubelet.exe the service kubelet, with the same files, as an administrator who moves the node
// back to upstream's does. The new service is started with the flags of the old one, but for those that upstream's
// kubelet does not know.
func (h closing) becomes(kubelet string) {
	h.t.Helper()
	data, err := os.ReadFile(kubelet)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("upstream/kubelet.exe", string(data))
	config, err := os.ReadFile(h.path("var/lib/kubelet/config.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	// Upstream's kubelet takes Host for a file beside its configuration, and then makes no pod; kubeadm writes "" on
	// Windows.
	h.write("var/lib/kubelet/upstream.yaml", strings.Replace(string(config), "resolvConf: Host", `resolvConf: ""`, 1))
	_, args, _ := strings.Cut(h.service("kubelet").Path, ` --`)
	command := []string{`C:\upstream\kubelet.exe`}
	for _, a := range strings.Split(strings.Replace("--"+args, `\config.yaml`, `\upstream.yaml`, 1), " ") {
		if !strings.HasPrefix(a, "--log-file") && !strings.HasPrefix(a, "--registry-config") &&
			!strings.HasPrefix(a, "--network-boot-record") {
			command = append(command, a)
		}
	}

	h.exe("sc", "stop", "kubelet")
	wait.True(h.t, shortly, "our kubelet to stop",
		func() bool { return h.service("kubelet").Status.State == scm.Stopped })
	h.exe("sc", "delete", "kubelet")
	if out, code := h.exe("sc", "create", "kubelet", "binPath=", strings.Join(command, " "), "start=", "auto",
		"depend=", "containerd"); code != 0 {
		h.t.Fatalf("sc create: exit code %d: %s", code, out)
	}
	start := time.Now()
	if out, code := h.exe("sc", "start", "kubelet"); code != 0 {
		h.t.Fatalf("starting %v: exit code %d: %s", command, code, out)
	}
	wait.NoError(h.t, 2*time.Minute, "a heartbeat of upstream's kubelet", func() error {
		out, err := h.kubectl("-n", "kube-node-lease", "get", "lease", h.name, "-o", "jsonpath={.spec.renewTime}")
		if err != nil {
			return err
		}
		if at, err := time.Parse(time.RFC3339Nano, out); err != nil || at.Before(start) {
			return fmt.Errorf("the lease is of %s: %v", out, err)
		}
		return nil
	})
	if pids := faulty(h).processes(`upstream\kubelet.exe`); len(pids) == 0 ||
		h.service("kubelet").Status.State != scm.Running {
		h.t.Errorf("processes of upstream's kubelet: %v; its service is %+v", pids, h.service("kubelet"))
	}
}
