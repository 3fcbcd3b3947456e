package join

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// broken are configurations that cannot work, with what the message must say: the place of the mistake, and what to
// write in its stead.
var broken = []struct {
	name string
	line []string // of flags; FILE stands for file, DIR for an empty folder
	file string   // --config; "" for none
	want []string
}{
	{"no IP address", []string{"--node-ip", "win07"}, "", []string{`--node-ip: "win07"`, "such as 10.0.0.7"}},
	{"the node itself", []string{"--node-ip", "127.0.0.1"}, "",
		[]string{"--node-ip: 127.0.0.1", "that the other nodes reach"}},
	{"two addresses of a family", []string{"--node-ip", "10.0.0.7,10.0.0.8"}, "",
		[]string{"--node-ip 10.0.0.7,10.0.0.8", "one of each family"}},
	{"no range", []string{"--pod-network-cidr", "10.244.0.0"}, "",
		[]string{`--pod-network-cidr: "10.244.0.0"`, "such as 10.244.0.0/16"}},
	{"bits behind the length", []string{"--service-cidr", "10.96.0.10/12"}, "",
		[]string{"--service-cidr: 10.96.0.10/12", "write 10.96.0.0/12"}},
	{"ranges that overlap", []string{"--pod-network-cidr", "10.0.0.0/8", "--service-cidr", "10.96.0.0/12"}, "",
		[]string{"--pod-network-cidr 10.0.0.0/8", "no address in common"}},
	{"no socket", []string{"--cri-socket", "containerd"}, "",
		[]string{`--cri-socket: "containerd"`, "npipe:////./pipe/containerd-containerd"}},
	{"a label without a value", []string{"--node-labels", "gpu"}, "", []string{`--node-labels: "gpu"`, "key=value"}},
	{"a label with a space", []string{"--node-labels", "a=b c"}, "",
		[]string{`--node-labels: "a=b c"`, "alphanumeric"}},
	{"a label of an administrator", []string{"--node-name", "n", "--node-labels", "node-role.kubernetes.io/x=y"}, "",
		[]string{"--node-labels", "kubectl label node n"}},
	{"a taint without an effect", []string{"--register-with-taints", "os=windows"}, "",
		[]string{"--register-with-taints", "key=value:effect"}},
	{"an effect that does not exist", []string{"--register-with-taints", "os=windows:NoRun"}, "",
		[]string{"--register-with-taints", "NoRun"}},
	{"an unknown flag of the kubelet", []string{"--kubelet-extra-args", "--max-pds=5"}, "",
		[]string{"--kubelet-extra-args", "--max-pds"}},
	{"a wrong value for the kubelet", []string{"--kubelet-extra-args", "--max-pods=many"}, "",
		[]string{"--kubelet-extra-args", "max-pods", "many"}},
	{"a value that the kubelet refuses", []string{"--kubelet-extra-args", "--max-pods=-5"}, "",
		[]string{"--kubelet-extra-args", "maxPods", "--max-pods", "-5"}},
	{"a flag that join sets", []string{"--kubelet-extra-args", "--hostname-override=x"}, "",
		[]string{"--hostname-override", "--node-name"}},
	{"a file that join writes", []string{"--kubelet-extra-args", "--kubeconfig=/x"}, "",
		[]string{"--kubeconfig", "leave it out"}},
	{"no flag", []string{"--kubelet-extra-args", "max-pods=5"}, "", []string{`"max-pods=5"`, "--NAME=VALUE"}},
	{"a folder of patches that is not there", []string{"--patches", "DIR/none"}, "",
		[]string{"--patches: stat", "none: no such file"}},
	{"a file for a folder", []string{"--patches", "FILE"}, "x", []string{"--patches", "kubeletconfiguration*.yaml"}},
	{"half a path", []string{"--install-dir", "porthole"}, "", []string{`--install-dir: "porthole"`, "such as /"}},
	{"no time", []string{"--timeout", "-1s"}, "", []string{"--timeout -1s", "such as 5m"}},
	{"a variable without a value", []string{"--env", "HTTPS_PROXY"}, "",
		[]string{`--env: "HTTPS_PROXY"`, "NAME=VALUE"}},
	{"an unknown network", []string{"--network", "calico"}, "",
		[]string{"--network calico", "host-gateway, tor, vxlan, bgp, ovn, flannel, none"}},

	{"a network of Windows nodes with a wrong flag", []string{"--routes-extra-args", "--mode=tor"}, "",
		[]string{"--routes-extra-args --mode", "--network"}},

	{"no YAML", []string{"--config", "FILE"}, "apiVersion: [", []string{"FILE", "line 1"}},
	{"an unknown field", []string{"--config", "FILE"}, strings.Replace(file4, "criSocket", "criSoket", 1),
		[]string{"FILE", "line 5, column 3", "criSoket: did you mean criSocket?"}},
	{"an unknown field of ours", []string{"--config", "FILE"}, strings.Replace(file4, "podSubnet", "podSubnets", 1),
		[]string{"FILE", "line 14, column 39", "podSubnets: did you mean podSubnet?"}},
	{"a text for a list", []string{"--config", "FILE"},
		strings.Replace(file4, "taints: [{key: os, value: windows, effect: NoSchedule}]", "taints: none", 1),
		[]string{"FILE", "line 6, column 3", "nodeRegistration.taints cannot be a string"}},
	{"an older version", []string{"--config", "FILE"}, strings.Replace(file4, "v1beta4", "v1beta2", 1),
		[]string{"FILE", "v1beta2", "v1beta4 or v1beta3"}},
	{"another document", []string{"--config", "FILE"}, "apiVersion: v1\nkind: Pod\n",
		[]string{"FILE", "v1 Pod", "JoinConfiguration"}},
	{"a field twice", []string{"--config", "FILE"},
		strings.Replace(file4, "  name: win07", "  name: win07\n  name: win08", 1),
		[]string{"FILE", `key "name"`, "line 5"}},
	{"a control plane", []string{"--config", "FILE"}, strings.Replace(file4, "---", "controlPlane: {}\n---", 1),
		[]string{"FILE", "controlPlane", "use kubeadm"}},
	{"a token that is none", []string{"--config", "FILE"}, strings.Replace(file4, token, "nonsense", 1),
		[]string{"kubeadm token create --print-join-command"}},
	{"a range in the file", []string{"--config", "FILE"}, strings.Replace(file4, "10.244.0.0/16", "10.244.0.0", 1),
		[]string{`"10.244.0.0"`, "such as 10.244.0.0/16"}},
	{"a mode that does not exist", []string{"--config", "FILE"},
		strings.Replace(file4, "mode: vxlan", "mode: weave", 1),
		[]string{"weave", "host-gateway, tor, vxlan, bgp, ovn, flannel, none"}},
	{"a mode of containerd that does not exist", []string{"--config", "FILE"}, file4 + "containerd: {mode: docker}\n",
		[]string{"FILE", "containerd.mode", "docker", "auto, existing"}},
	{"a port that does not exist", []string{"--config", "FILE"}, strings.Replace(file4, "9182", "70000", 1),
		[]string{"FILE", "firewall.extraPorts", "70000", "1 to 65535"}},
	{"flags beside the file", []string{"--config", "FILE", "--node-ip", "10.0.0.7"}, file4,
		[]string{"--node-ip", "write it into the file"}},
}

// TestBroken: each configuration that cannot work is refused before anything is done, with its place and its cure.
func TestBroken(t *testing.T) {
	for _, tc := range broken {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "join.yaml")
			if err := os.WriteFile(file, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			var line []string
			for _, arg := range tc.line {
				line = append(line, strings.NewReplacer("FILE", file, "DIR", dir).Replace(arg))
			}

			_, err := resolve(t, line...)
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range tc.want {
				if want = strings.ReplaceAll(want, "FILE", file); !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), token) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}
