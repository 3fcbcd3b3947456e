package join

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// TestVersions: a machine joins control planes that other versions of kubeadm make: pods talk, a service answers, the
// programs are exchanged, and the machine leaves. PORTHOLE_JOIN_VERSIONS names the versions.
func TestVersions(t *testing.T) {
	versions := strings.Fields(os.Getenv("PORTHOLE_JOIN_VERSIONS"))
	if len(versions) == 0 {
		t.Skip(
			"needs control planes of other versions, which take ten minutes each to compile: `make test-join-versions`")
	}
	for i, version := range versions {
		t.Run(version, func(t *testing.T) {
			cp := plane{version: version}.start(t, fmt.Sprintf("cp1%d", i), fmt.Sprintf("10.99.0.3%d", 4+i)).at(t)
			if out := cp.kubectl("version"); !strings.Contains(out, "Server Version: "+version) {
				t.Fatalf("the API server is another: %s", out)
			}
			cp.hasNetwork("host-gateway", "")
			cp.plugins()
			cp.importTestImage()
			m := cp.fresh(fmt.Sprintf("lin6%d", i), fmt.Sprintf("10.99.0.6%d", i)).at(t)
			m.importTestImage()
			m.supervise()
			fresh := m.snapshot()

			r := m.porthole(append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m")...)
			t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
			if r.code != 0 {
				t.Fatalf("code %d\nsupervisor:\n%s", r.code, tail(m.log("supervisor")))
			}
			if older := version < ourVersion; older != strings.Contains(r.out, "is newer than the API server") {
				t.Errorf("a warning of the kubelet's version is wanted: %t", older)
			}
			if again := m.porthole("join"); again.code != 0 || !strings.Contains(again.out, "nothing to do") {
				t.Errorf("again: code %d: %s%s", again.code, again.out, again.err)
			}
			first, second := cp.pod(cp.name), cp.pod(m.name)
			cp.talks(first, second)
			cp.talks(second, first)
			m.answersAsService(cp, second)

			upgraded := m.exchange(0, step.Upgraded, "upgrade", "--source", m.version("of-"+version, ""))
			t.Logf("upgrade took %.1f s", upgraded.Seconds)
			cp.ready(m.name)
			if r := m.porthole("leave"); r.code != 0 || !strings.Contains(r.out, "nothing of Porthole is left") {
				t.Errorf("leave: code %d: %s%s", r.code, r.out, r.err)
			}
			cp.kubectl("delete", "node", m.name)
			m.clean(fresh)
		})
	}
}

// answersAsService makes a service of a pod; a program of the machine reaches it by kube-proxy of the control plane's
// version, as a DaemonSet of kubeadm's would run it.
func (m follower) answersAsService(cp follower, pod string) {
	m.t.Helper()
	m.start(m.inside(cp.kubeadm, "kube-proxy", "--kubeconfig=/etc/kubernetes/kubelet.conf",
		"--hostname-override="+m.name, "--proxy-mode=nftables",
		"--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0",
		"--conntrack-tcp-timeout-close-wait=0"), "kube-proxy")
	cp.kubectl("label", "pod", pod, "app="+pod)
	cp.kubectl("expose", "pod", pod, "--port=80", "--target-port=80")
	ip := strings.TrimSpace(cp.kubectl("get", "service", pod, "-o", "jsonpath={.spec.clusterIP}"))
	wait.NoError(m.t, time.Minute, "an answer of the service", func() error {
		if r := m.run("curl", "-fsS", "-m", "3", "http://"+ip+"/"); r.code != 0 || !strings.Contains(r.out, pod) {
			return errors.New(r.out + r.err + tail(m.log("kube-proxy")))
		}
		return nil
	})
}
