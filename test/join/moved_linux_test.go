package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// upstreams is the command line of upstream's kubelet.
func upstreams() string { return filepath.Join(bin, "bundle", "kubelet") }

// TestMoved moves a node that kubeadm made with upstream's kubelet to ours and back, as docs/use/move.md says:
// the kubelet is stopped, another one starts with the same files. Three pods, one of them with volumes, run on with
// the same containers.
func TestMoved(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	cp := newControlPlane(t, "cp04", "10.99.0.24").at(t)
	m, seconds := cp.kubeadmNode("lin80", "10.99.0.80", upstreams())
	t.Logf("kubeadm join with upstream's kubelet: Ready after %.1f s", seconds)
	m.importTestImage()
	cp.threePods("lin80")
	before := cp.containers("lin80")

	for _, to := range []struct{ name, kubelet, program string }{
		{"ours", "", "/porthole"}, {"upstream's, again", upstreams(), "/bundle/kubelet"},
	} {
		start := time.Now()
		m.becomes(to.kubelet)
		wait.NoError(t, 3*time.Minute, "a heartbeat of "+to.name, func() error { return cp.beats("lin80", start) })
		if runs := m.ok("bash", "-c",
			"for p in /proc/[0-9]*; do grep -qzE '(^|/)kubelet$' $p/cmdline 2>/dev/null && readlink $p/exe; done; true"); !strings.Contains(runs, to.program) {
			t.Errorf("the kubelet is now %s, want %s", runs, to.name)
		}
		wait.NoError(t, time.Minute, "the pods to be Ready", func() error { return cp.allReady("lin80") })
		if after := cp.containers("lin80"); after != before {
			t.Errorf("with %s the containers are\n%s\nbefore\n%s\nevents\n%s\nlog\n%s", to.name, after, before,
				cp.kubectl("get", "events", "--sort-by=.lastTimestamp", "-o",
					"custom-columns=T:.lastTimestamp,O:.involvedObject.name,R:.reason,M:.message"),
				tail(m.log("supervisor")))
		}
		// Upstream's kubelet says that there is no such pod until it has read the pods from the API server.
		wait.NoError(t, time.Minute, "the volumes with "+to.name, func() error {
			r := cp.run(cp.kubeadm, "kubectl", "exec", "moved-0", "--", "/usr/local/bin/testapp", "cat", "/config/key",
				"/scratch/kept")
			if !strings.Contains(r.out, "value") || !strings.Contains(r.out, "written once") {
				return fmt.Errorf("they have %q: %s", r.out, r.err)
			}
			return nil
		})
		t.Logf("%s: taken over %.1f s after the other one was stopped", to.name, time.Since(start).Seconds())
	}
}

// becomes ends the machine's kubelet, as a service manager does, and starts another one.
func (m *machine) becomes(kubelet string) {
	m.t.Helper()
	must(m.t, syscall.Kill(-m.supervisor.Process.Pid, syscall.SIGTERM))
	wait.True(m.t, time.Minute, "the kubelet to end", func() bool {
		return m.run("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/10248").code != 0
	})
	m.kubelet = kubelet
	m.supervise()
}

// threePods runs pods on a node, the first with a ConfigMap and an empty folder into which it writes.
func (cp follower) threePods(node string) {
	cp.t.Helper()
	cp.kubectl("create", "configmap", "moved", "--from-literal=key=value")
	for i := range 3 {
		volumes, mounts := "[]", "[]"
		if i == 0 {
			volumes,
				mounts = `[{"name": "config", "configMap": {"name": "moved"}}, {"name": "scratch", "emptyDir": {}}]`,
				`[{"name": "config", "mountPath": "/config"}, {"name": "scratch", "mountPath": "/scratch"}]`
		}
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "moved-%d"}, "spec": {"nodeName": %q, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false, "volumes": %s,
  "containers": [{"name": "c", "image": %q, "imagePullPolicy": "Never", "command": ["/usr/local/bin/testapp", "serve"], "volumeMounts": %s, "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}}]}}`,
			i, node, volumes, testImage, mounts)
		file := filepath.Join(cp.dir, "moved.json")
		must(cp.t, os.WriteFile(file, []byte(text), 0o600))
		cp.kubectl("apply", "-f", file)
	}
	wait.NoError(cp.t, 2*time.Minute, "three pods to be Ready", func() error { return cp.allReady(node) })
	cp.kubectl("exec", "moved-0", "--", "/usr/local/bin/testapp", "write", "/scratch/kept", "written once")
}

func (cp follower) podsOf(node string) (list v1.PodList) {
	cp.t.Helper()
	must(cp.t,
		json.Unmarshal([]byte(cp.kubectl("get", "pods", "--field-selector", "spec.nodeName="+node, "-o", "json")),
			&list))
	return list
}

// allReady returns why not all of the three pods are Ready.
func (cp follower) allReady(node string) error {
	pods := cp.podsOf(node).Items
	if len(pods) != 3 {
		return fmt.Errorf("there are %d pods", len(pods))
	}
	for _, p := range pods {
		ready := false
		for _, c := range p.Status.Conditions {
			ready = ready || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
		}
		if !ready {
			return fmt.Errorf("%s: %+v", p.Name, p.Status)
		}
	}
	return nil
}

// containers lists the containers of a node's pods, with what a restart changes.
func (cp follower) containers(node string) string {
	var b strings.Builder
	for _, p := range cp.podsOf(node).Items {
		for _, c := range p.Status.ContainerStatuses {
			fmt.Fprintf(&b, "%s %s %s restarts %d", p.Name, p.Status.PodIP, c.ContainerID, c.RestartCount)
			if last := c.LastTerminationState.Terminated; last != nil {
				fmt.Fprintf(&b, ", the last ended with %d, %s %s", last.ExitCode, last.Reason, last.Message)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// beats returns why a node's kubelet has not renewed its lease since a time, or is not Ready.
func (cp follower) beats(node string, since time.Time) error {
	found := cp.kubectl("-n", "kube-node-lease", "get", "lease", node, "-o", "json", "--ignore-not-found")
	if strings.TrimSpace(found) == "" {
		return errors.New("it has no lease")
	}
	var lease coordinationv1.Lease
	must(cp.t, json.Unmarshal([]byte(found), &lease))
	if lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.After(since) {
		return fmt.Errorf("its lease is of %v", lease.Spec.RenewTime)
	}
	n := cp.node(node)
	if n == nil {
		return errors.New("there is no such node")
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %+v", n.Status.Conditions)
}
