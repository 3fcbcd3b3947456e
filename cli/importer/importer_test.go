package importer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/cli/join"
)

const (
	document = `{"apiVersion": "vlabs", "properties": {"orchestratorProfile": {"orchestratorType": "Kubernetes", "kubernetesConfig": {"networkPlugin": "NETWORK", "clusterSubnet": "10.244.0.0/16",
 "kubeletConfig": {"--max-pods": "50"}}}, "agentPoolProfiles": [{"name": "pool1", "count": 2, "osType": "Windows", "customNodeLabels": {"team": "b"}}]}}`
	token = "abcdef.0123456789abcdef"
	hash  = "sha256:1b00000000000000000000000000000000000000000000000000000000009579"
)

// TestFilesAreTaken: join takes the files with the line of kubeadm, gets as far as the API server, and reads the token
// from standard input only.
func TestFilesAreTaken(t *testing.T) {
	for network, mode := range map[string]string{"kubenet": "mode: host-gateway", "flannel": ""} {
		dir := t.TempDir()
		from, out := filepath.Join(dir, "windows.json"), filepath.Join(dir, "nodes")
		if err := os.WriteFile(from, []byte(strings.Replace(document, "NETWORK", network, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Command()
		c.SetArgs([]string{"acs-engine", from, "--out", out, "--join-line",
			"kubeadm join 127.0.0.1:1 --token " + token + " \\\n\t--discovery-token-ca-cert-hash " + hash})
		var printed bytes.Buffer
		c.SetOut(&printed)
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}

		file := filepath.Join(out, "pool1.yaml")
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text)+printed.String(), token) ||
			strings.Contains(string(text), "ADDRESS") || !strings.Contains(string(text), hash) ||
			!strings.Contains(string(text), mode) {
			t.Errorf("%v; the file is\n%s\nprinted was\n%s", err, text, printed.String())
		}
		if want := "porthole.exe join --config pool1.yaml --node-name pool1-1 --token-file -"; !strings.Contains(
			printed.String(), want) {
			t.Errorf("printed was\n%s\nwant %s", printed.String(), want)
		}
		if got := joined(t, file); !strings.Contains(got, "cannot reach https://127.0.0.1:1: connection refused") {
			t.Errorf("join says\n%s", got)
		}
	}
}

// joined has join read a file, and a token from standard input, and returns what it prints.
func joined(t *testing.T, file string) string {
	t.Helper()
	in := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(in, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := join.Command()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs([]string{"--config", file, "--node-name", "pool1-0", "--token-file", in, "--dry-run"})
	if err := c.Execute(); err == nil {
		t.Error("join reached an API server that is not there")
	}
	return out.String()
}

func TestWrongLine(t *testing.T) {
	from := filepath.Join(t.TempDir(), "windows.json")
	if err := os.WriteFile(from, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"kubeadm join", "kubeadm join 10.0.0.1:6443",
		"--discovery-token-ca-cert-hash " + hash} {
		c := Command()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetOut(&bytes.Buffer{})
		c.SetArgs([]string{"acs-engine", from, "--join-line", line})
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--join-line") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
