package winhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

// Nodes that a kubelet of the host can be, one at a time: they share containerd.exe and their ports.
const (
	Ours     = "ours"     // our kubelet.exe
	Upstream = "upstream" // upstream's
)

const adminToken = "token-of-admin"

func nodeToken(node string) string { return "token-of-" + node }

// kubeletConfig is what both kubelets read, as installers for Windows write it, with anonymous access for the API
// server.
var kubeletConfig = map[string]any{
	"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
	"authentication": map[string]any{"anonymous": map[string]any{"enabled": true},
		"webhook": map[string]any{"enabled": false}},
	"authorization":             map[string]any{"mode": "AlwaysAllow"},
	"cgroupsPerQOS":             false,
	"enforceNodeAllocatable":    []string{},
	"resolvConf":                "",
	"clusterDNS":                []string{"10.96.0.10"},
	"clusterDomain":             "cluster.local",
	"containerRuntimeEndpoint":  "npipe:////./pipe/containerd-containerd",
	"nodeStatusUpdateFrequency": "2s",
	// The disk of the machine may be nearly full.
	"podLogsDir":                  `C:\var\log\pods`, // upstream's default has no drive: it is that of the current folder
	"evictionHard":                map[string]string{"memory.available": "100Mi"},
	"imageGCHighThresholdPercent": 100,
}

// Address is that of the host.
func (h *Host) Address(ctx context.Context) (string, error) {
	out, err := h.Do(ctx, "list")
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(h.Name) + `\s.*?\b(10\.99\.0\.\d+)\b`).
		FindStringSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("host %s has no address:\n%s", h.Name, out)
	}
	return found[1], nil
}

// StartControlPlane runs etcd and an API server in the host's network namespace, and makes the client and what pods of
// the namespace need. No controller runs.
func (h *Host) StartControlPlane(ctx context.Context, namespace string) error {
	address, err := h.Address(ctx)
	if err != nil {
		return err
	}
	users := []string{adminToken + `,admin,admin,"system:masters"`}
	for _, node := range []string{Ours, Upstream} {
		users = append(users, fmt.Sprintf(`%s,system:node:%s,%s,"system:nodes"`, nodeToken(node), node, node))
	}
	h.plane = testkit.ControlPlane{Dir: filepath.Join(h.Dir, h.Name+"-controlplane"), Address: address,
		Services: "10.96.0.0/16", Users: users,
		APIServer: []string{"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--kubelet-preferred-address-types=InternalIP"}}
	config, err := h.plane.Write()
	if err != nil {
		return err
	}
	p, err := h.start("controlplane", h.Netns(), exec.Command(h.bundled("kube"), "controlplane", "--config", config))
	if err != nil {
		return err
	}
	h.stops = append(h.stops, p.stop)

	if h.Client, err = h.plane.Client(h.Netns(), adminToken); err != nil {
		return err
	}
	return wait.For(ctx, 2*time.Minute, "the control plane", func(ctx context.Context) error {
		return errors.Join(p.ended(), h.makeNamespace(ctx, namespace))
	})
}

// makeNamespace makes the namespace and what controllers would put into it.
func (h *Host) makeNamespace(ctx context.Context, name string) error {
	core := h.Client.CoreV1()
	_, err := core.Namespaces().
		Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	ca, err := os.ReadFile(h.plane.Path("certs/apiserver.crt"))
	if err != nil {
		return err
	}
	root := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"},
		Data: map[string]string{"ca.crt": string(ca)}}
	if _, err := core.ConfigMaps(name).Create(ctx, root, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = core.ServiceAccounts(name).
		Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Kubectl runs kubectl with all rights and returns what it printed.
func (h *Host) Kubectl(ctx context.Context, args ...string) (string, error) {
	kubectl := append([]string{"kubectl", "--server=https://" + h.plane.Address + ":6443", "--token=" + adminToken,
		"--insecure-skip-tls-verify"}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + h.Netns(), h.bundled("kube")}, kubectl...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// StartKubelet runs kubelet.exe as the node Ours or Upstream, and returns when the node is Ready.
func (h *Host) StartKubelet(ctx context.Context, node string) (*Process, error) {
	program := filepath.Join(filepath.Dir(h.Porthole), "windows", "kubelet.exe")
	more := []string{`--device-plugin-dir=C:\var\lib\kubelet-` + node + `\device-plugins`}
	if node == Upstream { // it has its sockets where all plugins expect them: both run on one host
		program = h.bundled("windows/kubelet.exe")
		more = nil
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w (run `make build upstream-kubelet`)", err)
	}
	kubeconfig := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "c",
			"cluster": map[string]any{"server": "https://" + h.plane.Address + ":6443",
				"insecure-skip-tls-verify": true}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": nodeToken(node)}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
	}
	for name, doc := range map[string]any{"config.json": kubeletConfig, node: kubeconfig} {
		data, err := json.Marshal(doc)
		if err == nil {
			err = testkit.WriteGuest(h.DriveC(), "k/"+name, data, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}

	began := metav1.Now()
	p, err := h.run(h.kubeletLog(node), program,
		append(more, `--config=C:\k\config.json`, `--kubeconfig=C:\k\`+node, "--hostname-override="+node,
			"--node-ip="+h.plane.Address, `--root-dir=C:\var\lib\kubelet-`+node,
			`--cert-dir=C:\var\lib\kubelet-`+node+`\pki`, "--v=2")...)
	if err != nil {
		return nil, err
	}
	return p, wait.For(ctx, 2*time.Minute, "node "+node+" to be Ready", func(ctx context.Context) error {
		if err := p.ended(); err != nil {
			return err
		}
		n, err := h.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue &&
				!c.LastHeartbeatTime.Time.Before(began.Truncate(time.Second)) {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", n.Status.Conditions)
	})
}

func (h *Host) kubeletLog(node string) string { return "kubelet-" + node }

// KubeletLog is the end of what a node's kubelet has printed.
func (h *Host) KubeletLog(node string) string {
	const enough = 12000
	text, _ := os.ReadFile(h.Log(h.kubeletLog(node))) // none yet is an empty one
	return string(text[max(0, len(text)-enough):])
}
