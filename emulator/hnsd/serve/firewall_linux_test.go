package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// TestFirewall: from outside, the ports of a host's programs time out until porthole.exe makes rules for the programs,
// and again when the rules are removed. What the host begins is answered, and programs of the host reach each other,
// in any case.
func TestFirewall(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startHostWith(t, 20348, func(o *Options) { o.Firewall = true })
	k := filepath.Join(h.prefix.DriveC(), "k")
	must(t, os.MkdirAll(k, 0o755))
	h.build(".", "go", "build", "-o", filepath.Join(k, "kubelet.exe"), "./testdata/listener")
	h.build(".", "go", "build", "-o", filepath.Join(k, "kube-proxy.exe"), "./testdata/listener")
	program, err := os.ReadFile("../../../bin/windows/porthole.exe")
	if err != nil {
		t.Fatalf("%v (run `make build`)", err)
	}
	must(t, os.WriteFile(filepath.Join(k, "porthole.exe"), program, 0o755))

	h.listen(`C:\k\kubelet.exe`, "10250")
	h.listen(`C:\k\kube-proxy.exe`, "10256", "32000") // its own health, and a service's
	open := func(want bool, ports ...int) {
		t.Helper()
		for _, port := range ports {
			at := fmt.Sprintf("10.99.7.21:%d", port)
			err := h.dial(h.out, at)
			var timeout net.Error
			if want && err != nil || !want && !(errors.As(err, &timeout) && timeout.Timeout()) {
				t.Errorf("%s from outside: %v, want an answer: %t", at, err, want)
			}
			if err := h.dial(h.path, at); err != nil {
				t.Errorf("%s from the host: %v", at, err)
			}
		}
	}
	open(false, 10250, 10256, 32000)
	h.talk("host to outside", h.path, h.out, "203.0.113.1:80", "10.99.7.21")

	if out := h.windows(`C:\k\porthole.exe`, "firewall", "add", "--dry-run"); strings.Count(out,
		"netsh advfirewall firewall add rule") != 3 {
		t.Errorf("a dry run says\n%s", out)
	}
	open(false, 10250)
	h.windows(`C:\k\porthole.exe`, "firewall", "add")
	open(true, 10250, 10256, 32000)
	if out := h.windows(`C:\k\porthole.exe`, "firewall", "add"); strings.TrimSpace(out) != "nothing to do" {
		t.Errorf("the second time: %s", out)
	}
	if out := h.windows(`C:\k\porthole.exe`, "firewall", "show", "-o", "json"); strings.Count(out,
		`"program":"C:\\k\\`) != 3 {
		t.Errorf("shown: %s", out)
	}

	h.stop()
	h.stop = h.serve()
	open(true, 10250) // the rules outlive the service
	h.windows(`C:\windows\system32\netsh.exe`, "advfirewall", "firewall", "delete", "rule",
		"name=Porthole: kubelet.exe")
	open(false, 10250)
	open(true, 10256)
	h.windows(`C:\k\porthole.exe`, "firewall", "remove")
	open(false, 10250, 10256, 32000)
}

// listen starts a program that listens, and returns when it does.
func (h *bridgeHost) listen(exe string, ports ...string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.tools.Command(ctx, h.prefix, exe, ports...)
	stdin, err := cmd.StdinPipe()
	must(h.t, err)
	stdout, err := cmd.StdoutPipe()
	must(h.t, err)
	must(h.t, platform.StartInNetns(h.path, cmd))
	h.t.Cleanup(func() {
		stdin.Close()
		cancel()
		_ = cmd.Wait() // it was killed
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.Contains(line, "listening") {
		h.t.Fatalf("%s: %q %v", exe, line, err)
	}
}

// dial connects from a network namespace and hangs up.
func (h *bridgeHost) dial(netns, at string) error {
	return platform.InNetns(netns, func() error {
		conn, err := net.DialTimeout("tcp4", at, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// windows runs a program of the host and returns what it printed.
func (h *bridgeHost) windows(exe string, args ...string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, exe, args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(h.t, platform.StartInNetns(h.path, cmd))
	if err := cmd.Wait(); err != nil {
		h.t.Errorf("%s %v: %v\n%s", exe, args, err, out.String())
	}
	return out.String()
}
