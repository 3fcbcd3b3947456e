package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// windowsPod is a pod of the test program on a Windows node. spec is further lines of its spec, container those of its
// container.
func windowsPod(t *testing.T, name, args, spec, container string) {
	t.Helper()
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  nodeSelector: {kubernetes.io/os: windows}
  terminationGracePeriodSeconds: 1
%s
  containers:
  - name: app
    image: porthole/testapp:1
    args: %s
%s
`, name, spec, args, container))
}

// TestExitCodesOfWindows: kubectl shows exit codes as Windows has them, in 32 bits and with their sign.
func TestExitCodesOfWindows(t *testing.T) {
	onWindows := map[string]int32{"300": 300, "3221225786": -1073741510, "256": 256} // the second is 0xC000013A, Ctrl+C
	for code := range onWindows {
		windowsPod(t, "code-"+code, `[exit, "`+code+`"]`, "", "")
	}
	for code, want := range onWindows {
		waitPod(t, "code-"+code, podWait, func(p *v1.Pod) error {
			for _, s := range p.Status.ContainerStatuses {
				if end := s.State.Terminated; end != nil && end.ExitCode == want && end.Reason == "Error" &&
					p.Status.Phase == v1.PodFailed {
					return nil
				}
			}
			return fmt.Errorf("has not ended with %d", want)
		})
	}
}

// TestDNSOfWindowsPods: programs in a Windows pod see exactly the servers and the search list of its DNS policy.
// Row 1.70.
func TestDNSOfWindowsPods(t *testing.T) {
	settings := map[string]struct{ spec, servers, search string }{
		"first": {"  dnsPolicy: ClusterFirst", "10.96.0.10",
			"default.svc.cluster.local svc.cluster.local cluster.local"},
		"default": {"  dnsPolicy: Default", "127.0.0.1", ""}, // of the node, which has no resolver
		"none": {
			"  dnsPolicy: None\n  dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2], searches: [a.example, b.example]}",
			"192.0.2.1 192.0.2.2", "a.example b.example"},
		"more": {"  dnsPolicy: ClusterFirst\n  dnsConfig: {nameservers: [192.0.2.1], searches: [a.example]}",
			"10.96.0.10 192.0.2.1", "default.svc.cluster.local svc.cluster.local cluster.local a.example"},
	}
	for name, c := range settings {
		windowsPod(t, "dns-"+name, "[serve, --http, ':8080']", c.spec, "")
	}
	for name, c := range settings {
		waitPod(t, "dns-"+name, podWait, isReady)
		out, err := kubectlErr("exec", "dns-"+name, "--", "cmd", "/c", "ipconfig /all")
		if err != nil {
			t.Fatal(err)
		}
		if servers, search := ipconfigList(out, "DNS Servers"), ipconfigList(out,
			"DNS Suffix Search List"); servers != c.servers || search != c.search {
			t.Errorf("%s: servers %q, search list %q; want %q, %q\n%s", name, servers, search, c.servers, c.search, out)
		}
	}
}

// ipconfigList returns what ipconfig prints behind a name: the rest of its line, and the lines that go on below.
func ipconfigList(out, name string) string {
	_, rest, found := strings.Cut(strings.ReplaceAll(out, "\r", ""), "   "+name)
	if !found {
		return ""
	}
	var list []string
	for i, line := range strings.Split(rest, "\n") {
		if i == 0 {
			_, line, _ = strings.Cut(line, " : ")
		} else if !strings.HasPrefix(line, strings.Repeat(" ", 30)) {
			break
		}
		list = append(list, strings.TrimSpace(line))
	}
	return strings.Join(list, " ")
}

// TestHostProcessAndHostNetwork: a pod of which only the container says that it is a HostProcess container runs; one
// that asks for the node's network without being such a pod shows the address that it really has; a user that Windows
// does not know is told in an event; a read-only volume cannot be written.
func TestHostProcessAndHostNetwork(t *testing.T) {
	testHostProcess(t)
	windowsPod(t, "hostnet", "[serve, --http, ':8080']", "  hostNetwork: true", "")
	windowsPod(t, "foolish", "[id]", "  securityContext: {windowsOptions: {runAsUserName: FooLish}}", "")
	windowsPod(t, "readonly", `[write, 'C:\data\file', text]`, "  volumes: [{name: data, emptyDir: {}}]",
		`    volumeMounts: [{name: data, mountPath: 'C:\data', readOnly: true}]`)

	pods := netip.MustParsePrefix("10.244.0.0/16")
	p := waitPod(t, "hostnet", podWait, isReady)
	if ip, err := netip.ParseAddr(p.Status.PodIP); err != nil || !pods.Contains(ip) {
		t.Errorf("a pod on the node's network has the address %q, want one of %s, as the runtime gives it",
			p.Status.PodIP, pods)
	}

	wait.NoError(t, podWait, "an event names the wrong user", func() error {
		out, err := kubectlErr("get", "events", "--field-selector",
			"involvedObject.name=foolish,reason=FailedCreatePodSandBox", "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(string(out), "The user name or password is incorrect.") {
			err = fmt.Errorf("events: %s", out)
		}
		return err
	})
	waitPod(t, "readonly", podWait, func(p *v1.Pod) error {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated != nil && s.State.Terminated.ExitCode == 1 {
				return nil
			}
		}
		return fmt.Errorf("was not refused the write")
	})
}

// testHostProcess runs a pod of which only the container says that it is a HostProcess container. C: is the node's
// there, and the image is at C:\hpc.
func testHostProcess(t *testing.T) {
	t.Helper()
	windowsPod(t, "hpc", "[id]", "  hostNetwork: true", `    command: ['C:\hpc\testapp.exe']
    securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\SYSTEM'}}`)
	hpc := waitPod(t, "hpc", podWait, succeeded)
	if hpc.Status.PodIP != hpc.Status.HostIP {
		t.Errorf("a HostProcess pod has the address %s on the node %s", hpc.Status.PodIP, hpc.Status.HostIP)
	}
}
