package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBadInput: one clear line that names the thing and the cure, a non-zero exit, nothing half-made.
func TestBadInput(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)
	broken := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(broken,
		[]byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: [\n"),
		0o644); err != nil {
		t.Fatal(err)
	}

	unknown := filepath.Join(t.TempDir(), "unknown.yaml")
	if err := os.WriteFile(unknown,
		[]byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPodz: 5\n"),
		0o644); err != nil {
		t.Fatal(err)
	}

	other := filepath.Join(t.TempDir(), "other")
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"unknown flag": {[]string{"up", "--nodes", "3"}, []string{"--nodes", "--help"}},
		"unknown build": {[]string{"up", "--dir", other, "--windows-build", "14393"},
			[]string{"14393", "20348"}},
		"too many nodes": {[]string{"up", "--dir", other, "--windows-nodes", "99"},
			[]string{"--windows-nodes", "9"}},
		"port in use":           {[]string{"up", "--dir", other, "--api-port", port}, []string{port, "--api-port"}},
		"other settings":        {[]string{"up", "--dir", dir, "--windows-nodes", "1"}, []string{dir, "porthole down"}},
		"no cluster":            {[]string{"status", "--dir", other}, []string{other, "porthole up"}},
		"kubelet: broken file":  {[]string{"kubelet", "--config", broken}, []string{broken, "line"}},
		"kubelet: unknown flag": {[]string{"kubelet", "--no-such-flag"}, []string{"--no-such-flag"}},
		"kubelet: unknown field, then no kubeconfig": {[]string{"kubelet", "--config", unknown, "--kubeconfig",
			"/nonexistent"}, []string{"maxPodz", unknown, "/nonexistent"}},
		"proxy: unknown flag": {[]string{"kube-proxy", "--no-such-flag"},
			[]string{"--no-such-flag"}},
		"host: unknown build": {[]string{"host", "create", "bad", "--dir", other, "--build",
			"1"}, []string{"20348"}},
		"host: unknown host": {[]string{"host", "run", "--dir", other, "absent", "--", "x.exe"},
			[]string{"absent"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := command(30*time.Second, porthole, c.args...)
			if err == nil {
				t.Fatalf("succeeded: %s", out)
			}
			text := err.Error()
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("the message lacks %q: %s", w, text)
				}
			}
			if strings.Contains(text, "goroutine ") {
				t.Errorf("panic: %s", text)
			}
		})
	}

	if _, err := os.Stat(filepath.Join(other, "cluster.json")); err == nil {
		t.Error("a refused command left a cluster behind")
	}
}

// TestNotRoot: commands that need root say so to another user.
func TestNotRoot(t *testing.T) {
	// The program must be readable for everybody: a copy in a folder that is.
	dir, err := os.MkdirTemp("/var/tmp", "porthole-notroot-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "porthole")
	if out, err := command(20*time.Second, "cp", porthole, copied); err != nil {
		t.Fatal(err, out)
	}
	for _, args := range [][]string{{"up"}, {"down"}, {"host", "create", "x"}} {
		out, err := command(20*time.Second, "setpriv",
			append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", copied}, args...)...)
		if err == nil || !strings.Contains(err.Error(), "root") {
			t.Errorf("%v as nobody: %v %s", args, err, out)
		}
	}
}

// TestPathThatEscapesItsVolume and its kind fail with an event that names the volume.
func TestPathThatEscapesItsVolume(t *testing.T) {
	apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: escape}
spec:
  nodeSelector: {kubernetes.io/os: windows}
  terminationGracePeriodSeconds: 0
  volumes: [{name: box, hostPath: {path: 'C:\box\..\..\windows'}}]
  containers:
  - name: app
    image: porthole/testapp:1
    args: [serve]
    volumeMounts: [{name: box, mountPath: 'C:\data'}]
`)
	waitEvent(t, "escape", "box", "..")
}
