package join

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	node "porthole.dev/porthole/node/join"
)

const (
	token = "abcdef.0123456789abcdef"
	hash  = "sha256:1b00000000000000000000000000000000000000000000000000000000009579"
)

// resolve parses a command line as the command does.
func resolve(t *testing.T, line ...string) (node.Request, error) {
	t.Helper()
	f := flags{Request: node.Request{Timeout: time.Minute}}
	fs := pflag.NewFlagSet("join", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(line); err != nil {
		t.Fatal(err)
	}
	return f.resolve(fs, fs.Args(), strings.NewReader(token+"\n"))
}

func TestLine(t *testing.T) {
	o, err := resolve(t, "10.0.0.1:6443", "--token", token, "--discovery-token-ca-cert-hash", hash)
	if err != nil || o.Endpoint != "10.0.0.1:6443" || o.Token.ID != "abcdef" || o.TLSToken != o.Token ||
		o.Pins[0] != hash || o.Network != "" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = resolve(t, "10.0.0.1", "--token-file", "-", "--discovery-token-ca-cert-hash", hash); err != nil ||
		!o.Token.Valid() || o.Endpoint != "10.0.0.1:6443" {
		t.Errorf("--token-file: %+v, %v", o, err)
	}
	if o, err = resolve(t, "--discovery-file", "f", "--token", token); err != nil || o.Token.Valid() ||
		!o.TLSToken.Valid() {
		t.Errorf("--discovery-file with --token: %+v, %v", o, err)
	}
	if _, err = resolve(t); err != nil {
		t.Errorf("again on a node: %v", err)
	}
}

func TestMisused(t *testing.T) {
	for text, line := range map[string][]string{
		"use kubeadm on the control plane":    {"10.0.0.1", "--certificate-key", "k"},
		"need --discovery-token-ca-cert-hash": {"10.0.0.1", "--token", token},
		"does not have the form":              {"10.0.0.1", "--token", "secret-of-mine"},
		"sha256:<64 hexadecimal digits>": {"10.0.0.1", "--token", token, "--discovery-token-ca-cert-hash",
			"sha256:12"},
		"is needed: porthole join": {"--token", token, "--discovery-token-ca-cert-hash", hash},
		"cannot both be given":     {"--discovery-file", "f", "--discovery-token", token},
		"--token is missing":       {"10.0.0.1", "--discovery-token-ca-cert-hash", hash},
		"kubectl label node win07": {"--node-name", "win07", "--node-labels",
			"node-role.kubernetes.io/worker="},
		"--network nat: host-gateway, tor":      {"--network", "nat"},
		"--routes-extra-args --mode: join sets": {"--routes-extra-args", "--mode=tor"},
		`"HTTPS_PROXY" is not NAME=VALUE`:       {"--env", "HTTPS_PROXY"},
		"PATH of a service stays":               {"--env", `Path=C:\\x`},
		"--wait yes":                            {"--wait", "yes"},
		"is not the address of an API server":   {"http://x/y"},
		"--config and --token cannot both":      {"--config", "f", "--token", token},
		"--config: open /nowhere: no such file": {"--config", "/nowhere"},
	} {

		_, err := resolve(t, line...)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v, want %q", line, err, text)
		}
		if err != nil && (strings.Contains(err.Error(), "secret-of-mine") || strings.Contains(err.Error(), token)) {
			t.Errorf("%v: the error has the token", line)
		}
	}
}

const file4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
nodeRegistration:
  name: win07
  criSocket: npipe:////./pipe/containerd-containerd
  taints: [{key: os, value: windows, effect: NoSchedule}]
  kubeletExtraArgs: [{name: node-ip, value: 10.0.0.7}, {name: max-pods, value: "50"}]
  ignorePreflightErrors: [Swap]
discovery:
  bootstrapToken: {token: ` + token + `, apiServerEndpoint: "10.0.0.1:6443", caCertHashes: ["` + hash + `"]}
---
apiVersion: porthole.dev/v1alpha1
kind: NodeConfiguration
network: {mode: vxlan, nic: Ethernet, podSubnet: 10.244.0.0/16, routesExtraArgs: [--vxlan-vni=4097]}
firewall: {extraPorts: [9182]}
`

func TestConfig(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "join.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o, err := resolve(t, "--config", write(file4), "--dry-run")
	if err != nil || o.NodeName != "win07" || o.NodeIP != "10.0.0.7" ||
		!slices.Equal(o.KubeletArgs, []string{"--max-pods=50"}) || o.Taints != "os=windows:NoSchedule" ||
		o.Network != "vxlan" || !slices.Equal(o.RoutesArgs, []string{"--vxlan-vni=4097"}) || o.NIC != "Ethernet" ||
		!o.DryRun || !o.Token.Valid() || o.Endpoint != "10.0.0.1:6443" || !slices.Equal(o.Ignore, []string{"Swap"}) ||
		!slices.Equal(o.FirewallPorts, []int{9182}) || o.NoFirewall {
		t.Errorf("%+v, %v", o, err)
	}

	old := strings.NewReplacer("v1beta4", "v1beta3",
		`[{name: node-ip, value: 10.0.0.7}, {name: max-pods, value: "50"}]`, `{node-ip: 10.0.0.7, max-pods: "50"}`).
		Replace(file4)
	if o, err = resolve(t, "--config", write(old)); err != nil || o.NodeIP != "10.0.0.7" || len(o.KubeletArgs) != 1 {
		t.Errorf("v1beta3: %+v, %v", o, err)
	}

	if o, err = resolve(t, "--config",
		write(strings.Replace(file4, "extraPorts: [9182]", "manage: false", 1))); err != nil || !o.NoFirewall {
		t.Errorf("firewall.manage: %+v, %v", o, err)
	}

	for text, spoiled := range map[string]string{
		"line 5, column 3: there is no field criSoket": strings.Replace(file4, "criSocket", "criSoket", 1),
		"there is no field nick":                       strings.Replace(file4, "nic:", "nick:", 1),
		"is not known: JoinConfiguration of":           strings.Replace(file4, "v1beta4", "v1beta2", 1),
		"use kubeadm on the control plane":             strings.Replace(file4, "---", "controlPlane: {}\n---", 1),
		"has no JoinConfiguration":                     file4[strings.Index(file4, "---\n")+4:],
	} {
		if _, err := resolve(t, "--config", write(spoiled)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
}
