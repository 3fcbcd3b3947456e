package join

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"porthole.dev/porthole/join/step"
)

// cluster is an API server of a kubeadm cluster with flannel's VXLAN. It notes what is asked.
type cluster struct {
	*httptest.Server
	errors    bool // what the command prints on standard error counts as its output
	forbidden bool // to list nodes, and all that is not kubeadm's
	objects   map[string]string
	mu        sync.Mutex
	written   []string
}

// objects are those that the API server has, by path.
var objects = map[string]string{
	"/version": `{"gitVersion": "v1.36.3"}`,
	"/api/v1/namespaces/kube-system/configmaps/kubelet-config": `{"data": {"kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: false"}}`,
	"/api/v1/namespaces/kube-system/configmaps/kubeadm-config": `{"data": {"ClusterConfiguration": "networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}"}}`,
	"/api/v1/namespaces/kube-flannel/configmaps/kube-flannel-cfg": `{"metadata": {"name": "kube-flannel-cfg", "namespace": "kube-flannel"},
		"data": {"net-conf.json": "{\"Network\": \"10.244.0.0/16\", \"Backend\": {\"Type\": \"vxlan\", \"VNI\": 4096, \"Port\": 4789}}"}}`,
	"/api/v1/nodes": `{"items": [{"metadata": {"name": "cp01", "annotations": {"flannel.alpha.coreos.com/backend-type": "vxlan"}, "labels": {"kubernetes.io/os": "linux"}}}]}`,
	"/apis/apps/v1/daemonsets": `{"items": [{"metadata": {"name": "kube-flannel-ds", "namespace": "kube-flannel"},
		"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}}]}`,
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{objects: maps.Clone(objects)}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, has := c.objects[r.URL.Path]
		kubeadms := r.URL.Path == "/version" || strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/kube-system/")
		switch {
		case r.Method != http.MethodGet:
			c.mu.Lock()
			c.written = append(c.written, r.Method+" "+r.URL.Path)
			c.mu.Unlock()
			w.WriteHeader(http.StatusForbidden)
		case c.forbidden && !kubeadms && !strings.HasPrefix(r.URL.Path, "/api/v1/nodes/"):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind": "Status", "reason": "Forbidden", "message": "no"}`)
		case !has:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "reason": "NotFound", "message": "not found"}`)
		default:
			fmt.Fprint(w, text)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// file is a kubeconfig with a user.
func (c *cluster) file(t *testing.T) string {
	ca := base64.StdEncoding.EncodeToString(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}))
	text := fmt.Sprintf(
		"clusters:\n- name: c\n  cluster: {server: %q, certificate-authority-data: %s}\nusers:\n- name: admin\n  user: {token: abc}\n", c.URL, ca)
	path := filepath.Join(t.TempDir(), "admin.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *cluster) run(t *testing.T, args ...string) (out string, err error) {
	command := Command()
	var text, problems bytes.Buffer
	command.SetOut(&text)
	command.SetErr(&problems)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append([]string{"--discovery-file", c.file(t), "--cri-socket",
		"unix://" + filepath.Join(t.TempDir(), "none.sock"), "--node-name", "plan01"}, args...))
	err = command.ExecuteContext(t.Context())
	if c.errors {
		text.Write(problems.Bytes())
	}
	return text.String(), err
}

// TestPlan runs the command against a server: it says what this machine can have, and changes nothing, here or there.
// The checks of this machine, on which nothing is set up, may fail beside.
// Row 1.59.
func TestPlan(t *testing.T) {
	c := newCluster(t)
	out, _ := c.run(t, "--plan", "-o", "json")
	var r step.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]string{}
	for _, topology := range r.Topologies {
		got[topology.Name] = topology.Result + ": " + topology.Why + " " + topology.Do
	}
	for name, want := range map[string]string{"host-gateway": "no: the cluster's network is flannel vxlan",
		"flannel": "yes: flannel's DaemonSet serves this node",
		"vxlan":   "--vxlan-vni=4096", "ovn": "no: ", "none": "yes: "} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if r.Network != "flannel vxlan" || len(r.Steps) > 0 || r.Outcome != step.Refused && r.Outcome != step.Planned {
		t.Errorf("network %q, outcome %s, steps %v", r.Network, r.Outcome, r.Steps)
	}

	text, _ := c.run(t, "--plan", "--network", "flannel")
	if !strings.Contains(text, "the cluster's network: flannel vxlan. This machine can have:") ||
		!strings.Contains(text, "→ porthole join … --network flannel") {
		t.Errorf("it printed\n%s", text)
	}
	c.forbidden = true
	if text, _ = c.run(t, "--plan"); !strings.Contains(text, "unknown host-gateway  the token may not list nodes") {
		t.Errorf("without the right to list nodes it printed\n%s", text)
	}
	if len(c.written) > 0 {
		t.Errorf("it wrote %v", c.written)
	}
}

// TestNetwork: without --network the mode is that of the cluster's ConfigMap, and the flags of porthole-routes are
// read before anything is changed.
func TestNetwork(t *testing.T) {
	for text, try := range map[string]struct {
		mode string
		line []string
	}{
		"this node would speak host-gateway":             {"vxlan", []string{"--network", "host-gateway"}},
		"with --network vxlan: --vxlan-vni and":          {"vxlan", []string{"--routes-extra-args=--vxlan-vni=0"}},
		"with --network vxlan: unknown flag":             {"vxlan", []string{"--routes-extra-args=--vxlan-vnj=1"}},
		"--bgp-config is for --network bgp":              {"vxlan", []string{"--bgp-config=/etc/hostname"}},
		"with --network ovn: --ovn-remote is required":   {"ovn", nil},
		"--bgp-config: open /nowhere: no such file":      {"bgp", []string{"--bgp-config=/nowhere"}},
		"with --network bgp: --bgp-config /etc/hostname": {"bgp", []string{"--bgp-config=/etc/hostname"}},
		"create routes-config":                           {"", nil},
	} {
		c := newCluster(t)
		c.errors = true
		c.objects["/api/v1/nodes"], c.objects["/apis/apps/v1/daemonsets"] = `{}`, `{}`
		if try.mode != "" {
			c.objects["/api/v1/namespaces/kube-system/configmaps/porthole"] = fmt.Sprintf(
				`{"data": {"cluster.yaml": "mode: %s"}}`, try.mode)
		}

		out, err := c.run(t, append(try.line, "--ignore-preflight-errors", "all", "--dry-run")...)
		if !strings.Contains(fmt.Sprint(out, err), text) {
			t.Errorf("the cluster says %q, %v: want %q:\n%s%v", try.mode, try.line, text, out, err)
		}
		if len(c.written) > 0 {
			t.Errorf("%v: it wrote %v", try.line, c.written)
		}
	}
}

// TestMismatch: a join with another network than the cluster's ends before it asks for a certificate.
// Row 1.54.
func TestMismatch(t *testing.T) {
	c := newCluster(t)
	out, err := c.run(t, "--network", "host-gateway", "--ignore-preflight-errors", "all", "--dry-run")
	if err == nil || !strings.Contains(out,
		"ClusterNetwork: the cluster's network is flannel vxlan; this node would speak host-gateway") {
		t.Errorf("%v\n%s", err, out)
	}
	if len(c.written) > 0 {
		t.Errorf("it wrote %v", c.written)
	}
}
