package nodes

import (
	"errors"
	"path/filepath"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/install"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/network"
	"porthole.dev/porthole/cluster/settings"
)

// noResolver is the resolv.conf of every node: names outside the cluster are not resolved.
const noResolver = "# no servers outside the cluster\n"

// kubernetesDir is the folder that the node sees as its /etc/kubernetes or C:\etc\kubernetes.
func kubernetesDir(l layout.Layout, n config.Node) string {
	if n.Windows {
		return l.NodeFile(n.Name, "prefix", "drive_c", "etc", "kubernetes")
	}
	return l.NodeFile(n.Name, "kubernetes")
}

// writeKubernetesFiles writes what the node's kubelet, service proxy and routes read. It copies credentials and links
// none, because a Windows node sees its own folder only, as its drive C:.
func writeKubernetesFiles(l layout.Layout, c config.Cluster, n config.Node) error {
	dir := kubernetesDir(l, n)
	kubelet, err := settings.Kubelet(l, c, n)
	if err != nil {
		return err
	}

	proxy, err := settings.Proxy(l, c, n)
	if err != nil {
		return err
	}

	errs := []error{
		install.File(filepath.Join(dir, "kubelet.json"), kubelet, 0o644),
		install.File(filepath.Join(dir, "kube-proxy.json"), proxy, 0o644),
	}
	if more := network.Of(c).Files; more != nil {
		for name, text := range more(c, n) {
			errs = append(errs, install.File(filepath.Join(dir, name), text, 0o600))
		}
	}
	if n.Windows { // which has no file of its own
		errs = append(errs, install.File(filepath.Join(dir, "resolv.conf"), []byte(noResolver), 0o644))
	}

	for from, to := range map[string]string{
		l.Credential("ca.crt"):                             "ca.crt",
		l.Credential("kubelet-serving-" + n.Name + ".crt"): "kubelet.crt",
		l.Credential("kubelet-serving-" + n.Name + ".key"): "kubelet.key",
		l.KubeconfigOf("kubelet-" + n.Name):                "kubelet.kubeconfig",
		l.KubeconfigOf("kube-proxy"):                       "kube-proxy.kubeconfig",
		l.KubeconfigOf("routes"):                           "routes.kubeconfig",
	} {
		errs = append(errs, install.Copy(from, filepath.Join(dir, to), 0o600))
	}
	return errors.Join(errs...)
}
