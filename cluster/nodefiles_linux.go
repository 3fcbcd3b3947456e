package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/wine"
)

func ensureNetwork(l Layout, c Config) error {
	for _, n := range c.Nodes() {
		if err := c.lab().EnsureHost(n.Name, n.Address); err != nil {
			return err
		}
		if err := c.lab().EnsureCards(n.Name, c.cards(n)); err != nil {
			return err
		}
		if c.dual() {
			if err := c.lab().EnsureSix(n.Name, n.Address); err != nil {
				return fmt.Errorf("addresses of IPv6: %w", err)
			}
		}
	}
	if prepare := c.network().prepare; prepare != nil {
		return prepare(l, c)
	}
	return nil
}

// writeNodeFiles writes what the processes of every node read: /etc/kubernetes of a real one.
func writeNodeFiles(l Layout, c Config) error {
	doc, err := controlPlaneConfig(l, c)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(l.ControlPlane(), "config.json"), doc, 0o644); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		write := writeLinuxNode
		if n.Windows {
			write = writeWindowsNode
		}
		if !n.Windows || c.Supervisor == SuperviseProcesses { // else `porthole join` writes its own
			if err := writeKubernetesFiles(l, c, n); err != nil {
				return fmt.Errorf("node %s: %w", n.Name, err)
			}
		}
		if err := errors.Join(describeHost(l, c, n), write(l, c, n)); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

// describeHost writes the file by which `porthole host` knows the node.
func describeHost(l Layout, c Config, n Node) error {
	return host.Store{Dir: l.Dir}.Describe(hostOf(l, c, n))
}

// noResolver is the resolv.conf of every node: names outside the cluster are not resolved.
const noResolver = "# no servers outside the cluster\n"

// kubernetesDir is the folder that the node sees as its /etc/kubernetes or C:\etc\kubernetes.
func kubernetesDir(l Layout, n Node) string {
	if n.Windows {
		return l.NodeFile(n.Name, "prefix", "drive_c", "etc", "kubernetes")
	}
	return l.NodeFile(n.Name, "kubernetes")
}

// writeKubernetesFiles writes what the node's kubelet, service proxy and routes read. It copies credentials and links
// none, because a Windows node sees its own folder only, as its drive C:.
func writeKubernetesFiles(l Layout, c Config, n Node) error {
	dir := kubernetesDir(l, n)
	kubelet, err := kubeletConfig(l, c, n)
	if err != nil {
		return err
	}

	proxy, err := proxyConfig(l, c, n)
	if err != nil {
		return err
	}

	errs := []error{
		writeFile(filepath.Join(dir, "kubelet.json"), kubelet, 0o644),
		writeFile(filepath.Join(dir, "kube-proxy.json"), proxy, 0o644),
	}
	if more := c.network().files; more != nil {
		for name, text := range more(c, n) {
			errs = append(errs, writeFile(filepath.Join(dir, name), text, 0o600))
		}
	}
	if n.Windows { // which has no file of its own
		errs = append(errs, writeFile(filepath.Join(dir, "resolv.conf"), []byte(noResolver), 0o644))
	}

	for from, to := range map[string]string{
		filepath.Join(l.PKI(), "ca.crt"):                         "ca.crt",
		filepath.Join(l.PKI(), "kubelet-serving-"+n.Name+".crt"): "kubelet.crt",
		filepath.Join(l.PKI(), "kubelet-serving-"+n.Name+".key"): "kubelet.key",
		kubeconfigOf(l, "kubelet-"+n.Name):                       "kubelet.kubeconfig",
		kubeconfigOf(l, "kube-proxy"):                            "kube-proxy.kubeconfig",
		kubeconfigOf(l, "routes"):                                "routes.kubeconfig",
	} {
		errs = append(errs, copyFile(from, filepath.Join(dir, to), 0o600))
	}
	return errors.Join(errs...)
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, data, mode)
}

// installProgram copies a program with its time; a file of the same size and time is left alone. A running program
// keeps using the old file, which it has mapped.
func installProgram(from, to string) error {
	if p, name, ok := wine.InPrefix(to); ok {
		return p.Install(from, name)
	}
	src, err := os.Stat(from)
	if err != nil {
		return err
	}
	if dst, err := os.Stat(to); err == nil && dst.Size() == src.Size() && dst.ModTime().Equal(src.ModTime()) {
		return nil
	}
	if err := copyFile(from, to+".new", 0o755); err != nil {
		return err
	}
	if err := os.Chtimes(to+".new", src.ModTime(), src.ModTime()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
