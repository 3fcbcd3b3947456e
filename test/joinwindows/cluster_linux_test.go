package joinwindows

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/scm"
	"porthole.dev/porthole/internal/testkit/wait"
)

// member is a host as the cluster sees it.
type member struct{ *host }

// daemonSet is one for a node that has not joined yet.
const daemonSet = `{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "each-%[1]s"}, "spec": {"selector": {"matchLabels": {"app": "each-%[1]s"}},
  "template": {"metadata": {"labels": {"app": "each-%[1]s"}}, "spec": {"terminationGracePeriodSeconds": 0, "nodeSelector": {"kubernetes.io/hostname": "%[1]s"},
    "containers": [{"name": "each", "image": "porthole/testapp:1", "args": ["serve", "--http", ":8081"]}]}}}}`

// expects makes a DaemonSet that is there before its node.
func (h member) expects() {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "daemonset.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, daemonSet, h.name), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if out, err := h.kubectl("apply", "-f", file); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	h.t.Cleanup(func() { forget(h.t, "daemonset/each-"+h.name) })
}

// runsExpected waits until the DaemonSet has its pod on the node that has joined since, and deletes both.
func (h member) runsExpected() {
	h.t.Helper()
	pods := func(path string) (string, error) {
		return h.kubectl("get", "pods", "-l", "app=each-"+h.name, "-o", "jsonpath="+path)
	}
	wait.NoError(h.t, 2*time.Minute, "the pod of a DaemonSet on a node that joined later", func() error {
		out, err := pods("{range .items[*]}{.spec.nodeName}={.status.containerStatuses[0].ready} {end}")
		if err == nil && out != h.name+"=true " {
			err = fmt.Errorf("pods by node: %q", out)
		}
		return err
	})
	forget(h.t, "daemonset/each-"+h.name)
	wait.NoError(h.t, 2*time.Minute, "the end of the DaemonSet's pod", func() error {
		out, err := pods("{.items[*].metadata.name}")
		if err == nil && out != "" {
			err = fmt.Errorf("there is %s", out)
		}
		return err
	})

	// It is deleted by force: the runtime has it for some seconds more, and its sandbox until the kubelet's next
	// collection. What follows looks at files and at HNS, which that changes.
	const ofOthers = 2 // sandbox and container of the host's pod
	wait.NoError(h.t, 3*time.Minute, "the runtime to forget the DaemonSet's pod", func() error {
		out := h.must(shortly, "host", "ctr", h.name, "containers", "--dir", state)
		if n := len(strings.Fields(out)); n != ofOthers {
			return fmt.Errorf("there are %d containers", n)
		}
		return nil
	})
}

// stops ends the kubelet alone, as an administrator does: the node is not Ready any more, its pod runs on, and with
// the kubelet the node is Ready again.
func (h member) stops() {
	h.t.Helper()
	pod, begin := containerOf(h.host), time.Now()
	if out, code := h.exe("sc", "stop", "kubelet"); code != 0 {
		h.t.Fatalf("sc stop: exit code %d: %s", code, out)
	}
	ready := func(want string) func() error {
		return func() error {
			out, err := h.kubectl("get", "node", h.name, "-o",
				`jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
			if err == nil && strings.TrimSpace(out) != want {
				err = fmt.Errorf("Ready is %s", out)
			}
			return err
		}
	}
	// The node lifecycle controller waits for --node-monitor-grace-period, 50 s.
	wait.NoError(h.t, 2*time.Minute, "a node without a kubelet not to be Ready", ready("Unknown"))
	h.t.Logf("not Ready %.0f s after the kubelet was stopped", time.Since(begin).Seconds())
	if state := h.service("kubelet").Status.State; state != scm.Stopped {
		h.t.Errorf("the service that was stopped is %v", state)
	}
	// Its pod is in no service any more, but it runs.
	ip, err := h.kubectl("get", "pod", "web-"+h.name, "-o", "jsonpath={.status.podIP}")
	if err == nil {
		err = h.get("http://" + ip + ":8080/")
	}
	if err != nil {
		h.t.Errorf("the pod of a node without a kubelet: %v", err)
	}

	if out, code := h.exe("sc", "start", "kubelet"); code != 0 {
		h.t.Fatalf("sc start: exit code %d: %s", code, out)
	}
	wait.NoError(h.t, time.Minute, "the node to be Ready", ready("True"))
	h.answers("with the kubelet again")
	if now := containerOf(h.host); now != pod {
		h.t.Errorf("the pod's container is another one: %s, before %s", now, pod)
	}
}
