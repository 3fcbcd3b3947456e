package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/containerdconf"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/test/images"
)

// suiteCluster is the local cluster under test.
type suiteCluster struct{ o options }

func newCluster(o options) *suiteCluster { return &suiteCluster{o} }

// nodes as `porthole up` takes them. Several tests need two nodes that take pods.
var nodes = map[string][]string{
	"lin": {"--linux-nodes=2", "--windows-nodes=0"},
	"win": {"--linux-nodes=1", "--windows-nodes=2"},
}

// program is the path of a program that was built, below the folder bin.
func (c *suiteCluster) program(name ...string) string {
	return filepath.Join(append([]string{c.o.bin}, name...)...)
}

// kubeconfig is the file that prepare writes.
func (c *suiteCluster) kubeconfig() string { return filepath.Join(c.o.dir, "conformance.kubeconfig") }

// suiteMemory is the memory of a Windows node of sig-windows: one of its tests uses all of it, and more than this
// machine may have free. The others need less than half.
const suiteMemory = "3Gi"

// up starts the cluster as the suite and the side that is judged need it.
func (c *suiteCluster) up(ctx context.Context) error {
	// A later flag wins over the same one before it.
	args := append([]string{"up", "--dir", c.o.dir}, nodes[c.o.node]...)
	if n := suites[c.o.suite].linuxNodes; n > 0 && c.o.node == "lin" {
		args = append(args, fmt.Sprintf("--linux-nodes=%d", n))
	}
	if c.o.kubelet != ours {
		args = append(args, "--linux-kubelet="+c.o.kubelet)
	}
	if c.o.suite == sigWindows { // a test shuts a node down, of which only services are told
		args = append(args, "--supervisor=services", "--windows-memory="+suiteMemory)
	}
	return show(exec.CommandContext(ctx, c.program("porthole"), args...))
}

// down runs even after an interrupt.
func (c *suiteCluster) down() error {
	return show(exec.Command(c.program("porthole"), "down", "--dir", c.o.dir))
}

// show runs a command with its output shown.
func show(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// pushImages gives the registry of the cluster all images that the suite names.
func (c *suiteCluster) pushImages(ctx context.Context) error {
	registry, err := images.Login("http://"+lab.Router.String()+":5000", layout.Layout{Dir: c.o.dir}.RegistryLogin())
	if err != nil {
		return err
	}
	p := &images.Pusher{
		Registry: registry,
		Client:   clientIn(platform.NetnsPath(lab.Default.RouterNetns())),
		Parts:    parts(c.program("conformance"), c.program("bundle")),
	}
	all := suiteImages()
	if suites[c.o.suite].storage {
		maps.Copy(p.Parts, storageParts(c.program("conformance")))
		for name := range storageParts("") {
			all = append(all, storageImage(name))
		}
	}
	return p.PushAll(ctx, all)
}

// clientIn makes connections in another network namespace.
func clientIn(netns string) *http.Client {
	dial := func(_ context.Context, network, addr string) (conn net.Conn, err error) {
		err = platform.InNetns(netns, func() (err error) {
			conn, err = net.DialTimeout(network, addr, 3*time.Second)
			return err
		})
		return conn, err
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dial}}
}

// prepare writes a kubeconfig that works in the namespace of the outside world, names kubectl, and keeps pods off the
// Linux node if Windows nodes are judged, but for those of a suite that has some for it.
func (c *suiteCluster) prepare(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(c.o.dir, "kubeconfig"))
	if err != nil {
		return err
	}
	var doc struct {
		Clusters []struct {
			Cluster map[string]any `json:"cluster"`
			Name    string         `json:"name"`
		} `json:"clusters"`
		Users    json.RawMessage `json:"users"`
		Contexts json.RawMessage `json:"contexts"`
		Current  string          `json:"current-context"`
		Kind     string          `json:"kind"`
		Version  string          `json:"apiVersion"`
	}

	// Only the parts that are read have types; users and contexts are written back as they are.
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	for _, entry := range doc.Clusters {
		entry.Cluster["server"] = fmt.Sprintf("https://%s:6443", config.Default().Nodes()[0].Address)
	}
	if data, err = json.Marshal(doc); err != nil {
		return err
	}

	if err := os.WriteFile(c.kubeconfig(), data, 0o600); err != nil {
		return err
	}
	// kubectl is one of the programs in kube, which knows it by its name.
	kubectl := c.program("conformance", "kubectl")
	if _, err := os.Lstat(kubectl); err != nil {
		if err := os.Symlink(filepath.Join("..", "bundle", "kube"), kubectl); err != nil {
			return err
		}
	}

	// These change the nodes, so they come before anything runs on them.
	if c.o.suite == sigWindows {
		if err := errors.Join(c.installShell(), c.giveGrace(ctx)); err != nil {
			return err
		}
	}
	if suites[c.o.suite].zones {
		if err := c.labelZones(ctx); err != nil {
			return err
		}
	}
	// Only pods of Linux nodes have to be kept off the Linux node.
	if c.o.node != "win" {
		return c.trustPrivateRegistry()
	}
	effect := "NoSchedule"
	// it has pods for Linux nodes too, and one (GMSA Kubelet) that does not say where it belongs
	if c.o.suite == sigWindows {
		effect = "PreferNoSchedule"
	}
	return show(exec.CommandContext(ctx, kubectl, "--kubeconfig", filepath.Join(c.o.dir, "kubeconfig"),
		"taint", "nodes", "--overwrite", "-l", "kubernetes.io/os=linux",
		"node-role.kubernetes.io/control-plane=:"+effect))
}

// trustPrivateRegistry has the Linux nodes pull from the registry that a test runs on them (privateregistry.go), where
// for every other name the cluster's registry answers. The runtime reads the file at each pull.
func (c *suiteCluster) trustPrivateRegistry() error {
	for _, name := range nodesOf(c.o) {
		hosts := containerdconf.Options{Dir: filepath.Join(c.o.dir, "hosts", name, "containerd")}
		file := filepath.Join(hosts.CertsDir(), "localhost_5000_", "hosts.toml")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("naming the private registry to %s: %w", name, err)
		}
		if err := os.WriteFile(file, []byte("server = \"http://localhost:5000\"\n"), 0o644); err != nil {
			return fmt.Errorf("naming the private registry to %s: %w", name, err)
		}
	}
	return nil
}

// labelZones puts each Linux node into a zone of its own: tests of traffic that stays in a zone need three.
func (c *suiteCluster) labelZones(ctx context.Context) error {
	for i, name := range nodesOf(c.o) {
		if err := c.kubectl(ctx, "", "label", "node", name, "--overwrite",
			fmt.Sprintf("topology.kubernetes.io/zone=zone%d", i+1)); err != nil {
			return err
		}
	}
	return nil
}

// giveGrace has the kubelets of the Windows nodes end pods before the node shuts down, which kubeadm's configuration
// leaves off. The test of it expects that pods with 20 s of their own end, and those that are critical have 10 s after
// them.
func (c *suiteCluster) giveGrace(ctx context.Context) error {
	for _, n := range config.Default().Nodes() {
		path := filepath.Join(c.o.dir, "hosts", n.Name, "prefix", "drive_c", "var", "lib", "kubelet", "config.yaml")
		if !n.Windows {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("giving pods of %s time at a shutdown: %w", n.Name, err)
		}
		if strings.Contains(string(text), "shutdownGracePeriod") {
			continue
		}

		text = append(text, "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n"...)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("giving pods of %s time at a shutdown: %w", n.Name, err)
		}
		// The kubelet reads its configuration when it starts.
		for _, what := range []string{"stop", "start"} {
			if err := show(exec.CommandContext(ctx, c.program("porthole"), "host", "run", "--dir", c.o.dir, n.Name,
				"--", "net", what, "kubelet")); err != nil {
				return err
			}
		}
	}
	return nil
}

// installShell puts our stand-in for PowerShell where Windows has it, on the Windows nodes: HostProcess containers
// start that of the host.
func (c *suiteCluster) installShell() error {
	shell, err := os.ReadFile(c.program("conformance", "windows", "sh.exe"))
	if err != nil {
		return err
	}
	for _, n := range config.Default().Nodes() {
		path := filepath.Join(c.o.dir, "hosts", n.Name, "prefix", "drive_c", "windows", "system32", "WindowsPowerShell",
			"v1.0", "powershell.exe")
		if !n.Windows {
			continue
		}
		if err := os.WriteFile(path, shell, 0o755); err != nil {
			return fmt.Errorf("installing a stand-in for PowerShell on %s: %w", n.Name, err)
		}
	}
	return nil
}
