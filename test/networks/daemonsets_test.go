package networks

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/test/images"
)

// Labels of the agents' pods.
const (
	flannelPods = "app=flannel"
	proxyPods   = "k8s-app=kube-proxy-windows"
)

// TestDaemonSets: Windows nodes have a kubelet and containerd.exe, and get all else as HostProcess pods, as
// sig-windows-tools ships it: the pod network by flanneld.exe, services by upstream's kube-proxy.exe. The Linux node
// has porthole routes. Packets pass as in TestVXLAN.
func TestDaemonSets(t *testing.T) {
	if os.Getenv("PORTHOLE_DAEMONSETS") != "long" {
		t.Skip("takes minutes: PORTHOLE_DAEMONSETS=long, or `make test-daemonsets`")
	}
	l := daemonSets{up(t, "vxlan", "--windows-kubelet-only")}
	l.pushAgents()
	manifest, err := os.ReadFile("testdata/agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	l.apply(string(manifest))
	l.nodesReady()
	l.agents(flannelPods)
	l.agents(proxyPods)
	t.Logf("nodes are Ready and have their agents after %v", time.Since(started).Round(100*time.Millisecond))

	f := l.fleet()
	f.checkPaths(promise{mtu: 1450, encap: "vxlan", vni: 4096, port: 4789})
	t.Run("agents deleted", func(t *testing.T) { l.deleteAgents(t, f) })
}

// daemonSets is a cluster whose Windows nodes have their agents as pods.
type daemonSets struct{ *lab }

// pushAgents makes the images of the agents, and pushes them to the cluster's registry.
func (l daemonSets) pushAgents() {
	l.t.Helper()
	start := filepath.Join(l.t.TempDir(), "start.exe")
	build := exec.Command("go", "build", "-o", start, "./testdata/agents")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}

	paths, err := layout.New(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	registry, err := config.RegistryURL(paths)
	if err != nil {
		l.t.Fatal(err)
	}
	if registry, err = images.Login(registry, paths.RegistryLogin()); err != nil {
		l.t.Fatal(err)
	}

	agent := func(repository, tag, layer string) images.Image {
		v := &images.Variant{Layers: []string{layer}, Entrypoint: []string{`%CONTAINER_SANDBOX_MOUNT_POINT%\start.exe`}}
		return images.Image{Repository: repository, Tags: []string{tag}, Windows: v}
	}
	bundle := filepath.Join(filepath.Dir(porthole), "bundle")
	p := &images.Pusher{Registry: registry, Client: &http.Client{Timeout: time.Minute},
		Parts: map[string]func(*images.Layer) error{
			"flannel": layerOf(map[string]string{"start.exe": start,
				"flannel/flanneld.exe": filepath.Join(bundle, "windows", "flanneld.exe"),
				"cni/win-overlay.exe":  filepath.Join(bundle, "cni-windows", "win-overlay.exe"),
				"cni/host-local.exe":   filepath.Join(bundle, "cni-windows", "host-local.exe")}),
			"kube-proxy": layerOf(map[string]string{"start.exe": start,
				"kube-proxy/kube-proxy.exe": filepath.Join(bundle, "windows", "kube-proxy.exe")}),
		}}

	err = p.PushAll(l.t.Context(), []images.Image{
		agent("sigwindowstools/flannel", "v0.28.4-hostprocess", "flannel"),
		agent("sigwindowstools/kube-proxy", "v1.36.3-flannel-hostprocess", "kube-proxy"),
	})
	if err != nil {
		l.t.Fatalf("%v (`make windows-agents bundle-tests` builds the programs)", err)
	}
}

// layerOf is a layer of a Windows image with these files, from files of this machine.
func layerOf(files map[string]string) func(*images.Layer) error {
	return func(layer *images.Layer) error {
		layer.Dir("Files", 0o755)
		layer.Dir("Hives", 0o755)
		for name, from := range files {
			layer.Dir(filepath.Join("Files", filepath.Dir(name)), 0o755)
			if err := layer.File("Files/"+name, from, 0o755); err != nil {
				return err
			}
		}
		return nil
	}
}

// nodesReady waits until all nodes are Ready.
func (l daemonSets) nodesReady() {
	l.t.Helper()
	wait.NoError(l.t, 3*time.Minute, "all nodes are Ready", func() error {
		var list v1.NodeList
		if err := get(&list, "nodes"); err != nil {
			return err
		}
		if len(list.Items) != len(nodeNames) {
			return fmt.Errorf("%d nodes, want %d", len(list.Items), len(nodeNames))
		}
		for _, n := range list.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
					return fmt.Errorf("%s: %s: %s\n%s", n.Name, c.Reason, c.Message, agentLogs())
				}
			}
		}
		return nil
	})
}

// agentLogs is the end of what the agents say.
func agentLogs() string {
	text := ""
	for _, label := range []string{flannelPods, proxyPods} {
		out, err := kubectl("logs", "-n", "kube-system", "-l", label, "--prefix", "--tail=15")
		text += out
		if err != nil {
			text += err.Error() + "\n"
		}
	}
	return text
}

// agents waits until an agent runs on both Windows nodes, and returns its pods.
func (l daemonSets) agents(label string) (names []string) {
	l.t.Helper()
	wait.NoError(l.t, 2*time.Minute, "agents with "+label, func() error {
		var list v1.PodList
		if err := get(&list, "pods", "-n", "kube-system", "-l", label); err != nil {
			return err
		}
		names = nil
		for _, p := range list.Items {
			if p.DeletionTimestamp != nil || !ready(p) {
				return fmt.Errorf("%s is not ready (%s): %+v\n%s", p.Name, p.Status.Phase, p.Status.ContainerStatuses,
					agentLogs())
			}
			names = append(names, p.Name)
		}
		if len(names) != 2 {
			return fmt.Errorf("pods %v, want two", names)
		}
		return nil
	})
	return names
}

// deleteAgents deletes the agents' pods. Others take their place, find the network and the services of the earlier
// ones, and packets pass.
func (l daemonSets) deleteAgents(t *testing.T, f *fleet) {
	for _, label := range []string{flannelPods, proxyPods} {
		before := l.agents(label)
		if _, err := kubectl("delete", "pods", "-n", "kube-system", "-l", label, "--timeout=50s"); err != nil {
			t.Fatal(err)
		}
		for _, name := range l.agents(label) {
			if slices.Contains(before, name) {
				t.Errorf("pod %s was deleted, and is there", name)
			}
		}
	}

	for _, p := range slices.Concat(f.podPaths(), f.servicePaths()) {
		wait10(t, p)
	}
}
