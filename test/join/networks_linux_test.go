package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/web/model"
)

// testImage has the program that pods of these tests run.
const testImage = "docker.io/porthole/testapp:join"

// TestNetworks joins a machine with each network that `porthole join` sets up, to a control plane whose node has the
// same one, and sends packets between pods of both in both directions. After leave nothing of it is left.
func TestNetworks(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	cp := newControlPlane(t, "cp02", "10.99.0.22")
	cp.plugins()
	cp.importTestImage()
	for i, c := range []struct {
		network string
		flags   []string // of join
		routes  string   // flags of porthole-routes on the control plane's node
		router  bool     // which carries the packets
	}{
		{network: "host-gateway"},
		{network: "vxlan", flags: []string{"--routes-extra-args=--vxlan-vni=4100"}, routes: "--vxlan-vni=4100"},
		{network: "bgp", flags: []string{"--bgp-config=BGP"}, routes: "--bgp-config=BGP"},
		{network: "tor", router: true},
	} {
		t.Run(c.network, func(t *testing.T) {
			peers := filepath.Join(cp.dir, "bgp.yaml")
			must(t, os.WriteFile(peers, []byte("asNumber: 64512\nfullMesh: true\n"), 0o600))
			cp := cp.at(t)
			cp.hasNetwork(c.network, strings.ReplaceAll(c.routes, "BGP", peers))
			m := cp.fresh(fmt.Sprintf("lin6%d", i), fmt.Sprintf("10.99.0.6%d", i)).at(t)
			m.importTestImage()
			m.supervise()
			fresh := m.snapshot()

			// The control plane says which network it has; flags say the rest.
			line := append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m")
			for _, f := range c.flags {
				line = append(line, strings.ReplaceAll(f, "BGP", peers))
			}
			r := m.porthole(line...)
			t.Logf("%.1f s\n%s%s", r.took.Seconds(), r.out, r.err)
			if r.code != 0 {
				t.Fatalf("code %d\nsupervisor:\n%s", r.code, tail(m.log("supervisor")))
			}
			if again := m.porthole("join"); again.code != 0 || !strings.Contains(again.out, "nothing to do") {
				t.Errorf("again: code %d: %s%s", again.code, again.out, again.err)
			}
			if other := m.porthole("join", "--network", "none"); other.code != 4 ||
				!strings.Contains(other.out+other.err, "this node has the network "+c.network) {
				t.Errorf("another network: code %d: %s%s", other.code, other.out, other.err)
			}
			if c.router {
				cp.feedRouter()
			}

			pods := []string{cp.pod(cp.name), cp.pod(m.name)}
			cp.talks(pods[0], pods[1])
			cp.talks(pods[1], pods[0])
			cp.shown(m.name)
			if r := m.porthole("leave"); r.code != 0 || !strings.Contains(r.out, "nothing of Porthole is left") {
				t.Errorf("leave: code %d: %s%s", r.code, r.out, r.err)
			}
			cp.kubectl("delete", "node", m.name)
			m.clean(fresh)
			if left := m.ok("ip", "-o", "link"); strings.Contains(left, "flannel.") || strings.Contains(left, "cni0") ||
				strings.Contains(left, "porthole") {
				t.Errorf("left are the devices\n%s", left)
			}
		})
	}
}

// shown fails unless a kubeconfig alone leads to what the machine's programs know: its kubelet passes the questions
// on, and says that its routes are right. The service proxy there is upstream's, or none.
func (m *machine) shown(node string) {
	m.t.Helper()
	var chain model.Chain
	r := m.run(filepath.Join(bin, "porthole"), "why", "node", node, "--kubeconfig", "/etc/kubernetes/admin.conf", "-o",
		"json")
	if err := json.Unmarshal([]byte(r.out), &chain); err != nil {
		m.t.Fatalf("porthole why node %s: code %d: %v\n%s%s", node, r.code, err, r.out, r.err)
	}
	states := map[string]model.State{}
	for _, s := range chain.Steps {
		states[s.Name] = s.State
	}
	if r.code != 0 || states["the kubelet says it is ready"] != model.Right ||
		states["pod network and routes"] != model.Right {
		m.t.Errorf("porthole why node %s: code %d\n%s%s", node, r.code, r.out, r.err)
	}
}

// TestDaemonSet runs the DaemonSet of `porthole manifests` with the image that `make release` makes, loaded into
// containerd as it is: its pod on the control plane's node keeps the route to a machine that joined. The API server
// refuses its account everything else.
func TestDaemonSet(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	cp := newControlPlane(t, "cp03", "10.99.0.23").at(t)
	const version = "v0.0.1-test"
	release := exec.Command("go", "run", "./tools/release", "-version", version, "-out", cp.dir, "-only", "image")
	release.Dir = "../.."
	if out, err := release.CombinedOutput(); err != nil {
		t.Fatalf("making the image: %v\n%s", err, out)
	}
	archive, err := os.ReadFile(filepath.Join(cp.dir, "porthole-node-"+version+"-linux-amd64.oci.tar"))
	must(t, err)
	if names := cp.load(archive); !slices.Equal(names, []string{"docker.io/porthole/node:" + version}) {
		t.Errorf("the image is called %v", names)
	}
	// A pod asks the API server at its cluster IP.
	cp.start(cp.inside(filepath.Join(bin, "bundle", "kube"), "kube-proxy", "--kubeconfig=/etc/kubernetes/admin.conf",
		"--hostname-override="+cp.name, "--proxy-mode=nftables",
		"--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0",
		"--conntrack-tcp-timeout-close-wait=0"), "kube-proxy")
	m := cp.fresh("lin70", "10.99.0.70").at(t)
	m.supervise()

	manifests := cp.porthole("manifests", "--kubeconfig", "/etc/kubernetes/admin.conf", "--image",
		"docker.io/porthole/node:"+version)
	if manifests.code != 0 {
		t.Fatalf("porthole manifests: %s", manifests.err)
	}
	file := filepath.Join(cp.dir, "manifests.yaml")
	must(t, os.WriteFile(file, []byte(manifests.out), 0o600))
	cp.kubectl("apply", "-f", file)
	if r := m.porthole(append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m")...); r.code != 0 {
		t.Fatalf("code %d: %s%s", r.code, r.out, r.err)
	}
	if r := cp.run(cp.kubeadm, "kubectl", "-n", "kube-system", "rollout", "status", "daemonset/porthole-routes",
		"--timeout=2m"); r.code != 0 {
		t.Fatalf("%s%s\n%s\nkube-proxy:\n%s", r.out, r.err,
			cp.kubectl("-n", "kube-system", "describe", "pods", "-l", "app.kubernetes.io/name=porthole-routes"),
			tail(cp.log("kube-proxy")))
	}
	if pods := cp.kubectl("-n", "kube-system", "get", "pods", "-l", "app.kubernetes.io/name=porthole-routes", "-o",
		"jsonpath={.items[*].spec.nodeName}"); pods != cp.name {
		t.Errorf("pods of the DaemonSet are on %q: a node whose service does the same has none", pods)
	}
	pods := cp.node(m.name).Spec.PodCIDR
	wait.NoError(t, time.Minute, "the route to "+pods, func() error {
		if routes := cp.ok("ip", "route"); !strings.Contains(routes, pods+" via 10.99.0.70") {
			return errors.New(routes)
		}
		return nil
	})

	as := []string{"--as=system:serviceaccount:kube-system:porthole-routes"}
	if out := cp.kubectl(append(as, "get", "nodes", "-o", "name")...); !strings.Contains(out, "node/lin70") {
		t.Errorf("its account lists the nodes %s", out)
	}
	for _, call := range [][]string{{"delete", "node", "lin70"}, {"annotate", "node", "lin70", "a=b"},
		{"get", "secrets", "-A"}, {"get", "pods", "-A"}, {"-n", "kube-system", "get", "configmap", "kubeadm-config"}} {
		r := cp.run(cp.kubeadm, slices.Concat([]string{"kubectl"}, as, call)...)
		if r.code == 0 || !strings.Contains(r.err, "Forbidden") {
			t.Errorf("its account may %v: %s%s", call, r.out, r.err)
		}
	}
}

// plugins installs the CNI plugins that join installs on other machines.
func (m *machine) plugins() {
	m.t.Helper()
	m.ok("mkdir", "-p", "/opt/cni/bin")
	for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
		m.ok("cp", filepath.Join(bin, "bundle", "cni", plugin), "/opt/cni/bin/")
	}
}

func (m *machine) importTestImage() {
	m.t.Helper()
	m.importImage(filepath.Join(bin, "bundle", "images", "linux", "testapp"), []string{"testapp"}, []string{testImage})
}

// hasNetwork gives the control plane's node a network, and the cluster the ConfigMap that says so, as an administrator
// does.
func (cp follower) hasNetwork(network, flags string) {
	cp.t.Helper()
	manifests := cp.porthole("manifests", "--mode", network, "--no-daemonset")
	if manifests.code != 0 {
		cp.t.Fatalf("porthole manifests: %s", manifests.err)
	}
	file := filepath.Join(cp.dir, "manifests.yaml")
	must(cp.t, os.WriteFile(file, []byte(manifests.out), 0o600))
	cp.kubectl("apply", "-f", file)

	cp.ok("rm", "-f", "/etc/kubernetes/porthole-routes.env") // the supervisor ends the agent of the network before
	wait.True(cp.t, time.Minute, "porthole-routes of the network before to end", func() bool {
		return cp.run("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/10261").code != 0
	})
	env := fmt.Sprintf(
		"PORTHOLE_ROUTES_ARGS=\"--hostname-override=%s --node-ip=%s --cluster-cidr=10.244.0.0/16 --service-cidr=10.96.0.0/16 --cni-conf-dir=/etc/cni/net.d --state-dir=/var/lib/porthole-node --mode=%s %s\"\n",
		cp.name, cp.address, network, flags)
	must(cp.t, os.WriteFile(filepath.Join(cp.dir, "routes.env"), []byte(env), 0o600))
	cp.ok("cp", filepath.Join(cp.dir, "routes.env"), "/etc/kubernetes/porthole-routes.env")
	cp.ready(cp.name)
}

// feedRouter gives the router in front of the machines the routes that `porthole routes --print-router` prints, as its
// operator does.
func (cp follower) feedRouter() {
	cp.t.Helper()
	lines := cp.ok(filepath.Join(bin, "porthole"), "routes", "--print-router", "ip", "--kubeconfig",
		"/etc/kubernetes/admin.conf")
	shell := exec.Command("nsenter", "--net="+platform.NetnsPath(lab.Default.RouterNetns()), "sh", "-e")
	shell.Stdin = strings.NewReader(lines)
	if out, err := shell.CombinedOutput(); err != nil {
		cp.t.Fatalf("giving the router its routes: %v: %s\n%s", err, out, lines)
	}
}

// pod runs a pod that serves on a node, and returns its name when it has an address. It ends with the test.
func (cp follower) pod(node string) string {
	cp.t.Helper()
	name := "talk-" + node
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"nodeName": %q, "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
  "containers": [{"name": "c", "image": %q, "imagePullPolicy": "Never", "command": ["/usr/local/bin/testapp", "serve"]}]}}`, name, node, testImage)
	file := filepath.Join(cp.dir, name+".json")
	must(cp.t, os.WriteFile(file, []byte(text), 0o600))
	cp.kubectl("apply", "-f", file)
	cp.t.Cleanup(func() { cp.kubectl("delete", "pod", name, "--force", "--ignore-not-found", "--wait=false") })
	wait.True(cp.t, 2*time.Minute, "pod "+name+" to run", func() bool { return cp.podIP(name) != "" })
	return name
}

// podIP returns the address of a pod that runs; "" before.
func (cp follower) podIP(name string) string {
	var p v1.Pod
	must(cp.t, json.Unmarshal([]byte(cp.kubectl("get", "pod", name, "-o", "json")), &p))
	if p.Status.Phase != v1.PodRunning {
		return ""
	}
	return p.Status.PodIP
}

// talks has a pod ask another one over HTTP.
func (cp follower) talks(from, to string) {
	cp.t.Helper()
	wait.NoError(cp.t, time.Minute, from+" to reach "+to, func() error {
		r := cp.run(cp.kubeadm, "kubectl", "exec", from, "--", "/usr/local/bin/testapp", "get",
			"http://"+cp.podIP(to)+"/", "2")
		if r.code != 0 || !strings.Contains(r.out, to) {
			return fmt.Errorf("code %d: %s%s", r.code, r.out, r.err)
		}
		return nil
	})
}
