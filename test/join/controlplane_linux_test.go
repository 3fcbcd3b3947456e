package join

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/testkit/wait"
)

var (
	bin   string // the repository's bin
	state string // folder of this run
)

func TestMain(m *testing.M) {
	if os.Getenv("PORTHOLE_JOIN")+os.Getenv("PORTHOLE_JOIN_SPEED") == "" {
		fmt.Println("a control plane by kubeadm takes minutes: `make test-join`")
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "join:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("these tests make namespaces and mounts: run them as root")
	}
	if bin, err = filepath.Abs("../../bin"); err != nil {
		return 1, err
	}
	for _, need := range []string{"porthole", "bundle/kubeadm", "bundle/containerd", "bundle/cni/bridge",
		"bundle/images/linux/pause"} {
		if _, err := os.Stat(filepath.Join(bin, need)); err != nil {
			return 1, fmt.Errorf("%w (make build kubeadm)", err)
		}
	}
	if state, err = os.MkdirTemp("/var/tmp", "pj"); err != nil { // sockets need a short path, overlays a disk
		return 1, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	if err := lab.Default.EnsureRouter(); err != nil {
		return 1, err
	}
	defer func() { _ = lab.Default.RemoveRouter() }()
	return m.Run(), nil
}

// initConfig is the file of `kubeadm init`. The kernel of many machines is shared with all others here, hence the
// settings of the kubelet.
const initConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: ADDRESS, bindPort: 6443}
nodeRegistration: {name: NAME, criSocket: "unix:///run/containerd/containerd.sock", taints: []}
patches: {directory: PATCHES}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: VERSION
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
apiServer:
  extraArgs: [{name: audit-policy-file, value: /audit/policy.yaml}, {name: audit-log-path, value: /audit/log}]
  extraVolumes: [{name: audit, hostPath: AUDIT, mountPath: /audit, pathType: Directory}]
controllerManager:
  extraArgs: [{name: cluster-signing-duration, value: SIGNING}]
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failSwapOn: false
failCgroupV1: false
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
`

// auditPolicy has the API server note who writes what.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

// plane is what differs between control planes.
type plane struct {
	version string        // of Kubernetes, and of kubeadm; "": ours
	signing time.Duration // how long certificates live; 0: a year
}

// program is kubeadm of the version, with the programs of its control plane.
func (p plane) program() string {
	if p.version == "" {
		return filepath.Join(bin, "bundle", "kubeadm")
	}
	return filepath.Join(bin, "bundle", "kubeadm-"+p.version)
}

// newControlPlane makes a machine and runs kubeadm init on it.
func newControlPlane(t testing.TB, name, address string) *machine {
	t.Helper()
	return plane{}.start(t, name, address)
}

func (p plane) start(t testing.TB, name, address string) *machine {
	t.Helper()
	m := newMachine(t, name, address)
	m.kubeadm = p.program()
	version, images := cmp.Or(p.version, ourVersion), controlPlaneImages
	if p.version != "" {
		images = imagesOf(m, version)
	}
	m.importImage(m.kubeadm, programNames, images)
	m.importImage(filepath.Join(bin, "bundle", "images", "linux", "pause"), []string{"pause"}, []string{pauseImage})
	must(t, os.MkdirAll(auditFolder(m), 0o755))
	must(t, os.WriteFile(filepath.Join(auditFolder(m), "policy.yaml"), []byte(auditPolicy), 0o600))
	patches := m.patches()
	config := strings.NewReplacer("ADDRESS", address, "NAME", name, "PATCHES", patches, "VERSION", version, "AUDIT",
		auditFolder(m),
		"SIGNING", cmp.Or(p.signing, 365*24*time.Hour).String()).Replace(initConfig)
	file := filepath.Join(m.dir, "init.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o644))

	m.supervise()
	start := time.Now()
	// The add-ons need images that are not here; tests make the ConfigMap of kube-proxy's by its own phase.
	out := m.ok(m.kubeadm, "kubeadm", "init", "--config", file, "--ignore-preflight-errors=all",
		"--skip-phases=addon/coredns")
	t.Logf("kubeadm init took %.1f s", time.Since(start).Seconds())
	if !strings.Contains(out, "kubeadm join") {
		t.Fatalf("kubeadm init printed no line to join:\n%s", out)
	}
	m.kubectl("-n", "kube-system", "delete", "daemonset", "kube-proxy", "--wait=false")
	m.kubectl("create", "clusterrolebinding", "porthole:node-proxier", "--clusterrole=system:node-proxier",
		"--group=system:nodes")
	return m
}

// patches returns a folder with what the kubelet's configuration needs because all machines share one kernel.
func (m *machine) patches() string {
	dir := filepath.Join(m.dir, "patches")
	must(m.t, os.MkdirAll(dir, 0o755))
	must(m.t, os.WriteFile(filepath.Join(dir, "kubeletconfiguration.yaml"),
		fmt.Appendf(nil, "cgroupRoot: /porthole/%s\n", m.name), 0o644))
	return dir
}

// joinLine returns the arguments of the line that kubeadm prints, without "kubeadm".
func (m *machine) joinLine() []string {
	m.t.Helper()
	line := m.ok(m.kubeadm, "kubeadm", "token", "create", "--print-join-command")
	words := strings.Fields(line)
	if len(words) < 5 || words[0] != "kubeadm" || words[1] != "join" {
		m.t.Fatalf("kubeadm printed %q", line)
	}
	return words[1:]
}

// node returns a Node; nil if there is none.
func (m *machine) node(name string) *v1.Node {
	m.t.Helper()
	out := m.kubectl("get", "node", name, "-o", "json", "--ignore-not-found")
	if strings.TrimSpace(out) == "" {
		return nil
	}
	var n v1.Node
	must(m.t, json.Unmarshal([]byte(out), &n))
	return &n
}

// ready waits until a node is Ready.
func (m *machine) ready(name string) {
	m.t.Helper()
	wait.True(m.t, 2*time.Minute, "node "+name+" Ready", func() bool {
		n := m.node(name)
		return n != nil && isReady(n)
	})
}

func isReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions,
		func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue })
}

// audit is the folder of the API server's log of writes.
func auditFolder(m *machine) string { return filepath.Join(m.dir, "audit") }

// write is one entry of that log.
type write struct {
	Verb, UserAgent string
	User            struct{ Username string }
	ObjectRef       struct{ Resource, Name string }
	ResponseStatus  struct{ Code int }
}

// joinWrites are what join and leave have written to the API so far. Reviews of rights create nothing.
func joinWrites(m *machine) (list []write) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(auditFolder(m), "log"))
	must(m.t, err)
	for _, line := range bytes.Split(text, []byte("\n")) {
		var w write
		// the last line may be half
		if err := json.Unmarshal(line, &w); err == nil && w.UserAgent == "porthole-join" &&
			w.ObjectRef.Resource != "selfsubjectaccessreviews" {
			list = append(list, w)
		}
	}
	return list
}
