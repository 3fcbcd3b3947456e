// Package credentials makes what the parts of a local cluster prove with who they are: authorities, keys, certificates,
// kubeconfigs, and the password of the registry. What is there already stays.
package credentials

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/atomicfile"
)

// apiServiceIP is the first address of the service range: it belongs to the API server's own service.
func apiServiceIP() string { return lab.ServiceIPs.Addr().Next().String() }

// metricsUser is the name in the certificates of metrics-server: the one that it shows to the API server and kubelets,
// and the one that it serves with, under the name by which the API server's aggregation layer asks for it.
// manifests/metrics.yaml gives the user its rights.
const metricsUser = "porthole:metrics-server"

// Authority returns the certificate of the cluster's authority. The error wraps os.ErrNotExist if there is no cluster.
func Authority(l layout.Layout) (*x509.Certificate, error) {
	cert, _, err := readPair(l.PKI(), authorityName)
	return cert, err
}

// authorityName is that of the files of the cluster's authority.
const authorityName = "ca"

// Ensure makes the authorities, keys, certificates and kubeconfigs that are missing.
func Ensure(l layout.Layout, c config.Cluster) error {
	ca, err := loadAuthority(l.PKI(), authorityName)
	if err != nil {
		return err
	}

	front, err := loadAuthority(l.PKI(), "front-proxy-ca")
	if err != nil {
		return err
	}
	if _, err := os.Stat(l.Credential("sa.key")); errors.Is(err, os.ErrNotExist) {
		if _, err := makeKey(l.PKI(), "sa"); err != nil {
			return fmt.Errorf("key of service account tokens: %w", err)
		}
	}

	if err := ensureRegistryLogin(l); err != nil {
		return err
	}
	if err := front.issue(identity{file: "front-proxy-client", user: "front-proxy-client"}); err != nil {
		return err
	}
	ids := []identity{
		{file: "apiserver", user: "kube-apiserver",
			hosts: []string{"127.0.0.1", "localhost", config.ControlPlane().String(), apiServiceIP(),
				"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
				"lin01"}},
		{file: "apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", group: "system:masters"},
		{file: "admin", user: "kubernetes-admin", group: "system:masters"},
		{file: "controller-manager", user: "system:kube-controller-manager"},
		{file: "scheduler", user: "system:kube-scheduler"},
		{file: "kube-proxy", user: "system:kube-proxy"},
		{file: "routes", user: "porthole:routes"},
		{file: "ovn", user: "porthole:ovn"},
		{file: "metrics-server", user: metricsUser},
		{file: "metrics-server-serving", user: metricsUser, hosts: []string{"metrics-server.kube-system.svc"}},
	}

	for _, n := range c.Nodes() {
		ids = append(ids,
			identity{file: "kubelet-" + n.Name, user: "system:node:" + n.Name, group: "system:nodes"},
			identity{file: "kubelet-serving-" + n.Name, user: "system:node:" + n.Name, group: "system:nodes",
				hosts: []string{n.Name, n.Address.String()}})
	}

	for _, id := range ids {
		if err := ca.issue(id); err != nil {
			return err
		}
	}
	return writeKubeconfigs(l, c)
}

// writeKubeconfigs writes one kubeconfig for the user and one for each component. The user's leads through the relay on
// loopback, since the API server itself is in a network namespace; components reach it directly.
func writeKubeconfigs(l layout.Layout, c config.Cluster) error {
	local := fmt.Sprintf("https://127.0.0.1:%d", c.APIPort)
	if err := writeKubeconfig(l, l.Kubeconfig(), local, "admin"); err != nil {
		return err
	}
	users := []string{"controller-manager", "scheduler", "kube-proxy", "routes", "ovn", "metrics-server"}
	for _, n := range c.Nodes() {
		users = append(users, "kubelet-"+n.Name)
	}
	for _, user := range users {
		if err := writeKubeconfig(l, l.KubeconfigOf(user), "https://"+config.APIServer(), user); err != nil {
			return err
		}
	}
	return nil
}

// ensureRegistryLogin makes the name and the password of who may push images: whoever may read the state folder.
func ensureRegistryLogin(l layout.Layout) error {
	if _, err := os.Stat(l.RegistryLogin()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.WriteThrough(l.RegistryLogin(), []byte("porthole:"+rand.Text()+"\n"), 0o600)
}

// writeKubeconfig writes a kubeconfig (JSON is YAML) that carries its credentials, so that it can be copied to a host.
func writeKubeconfig(l layout.Layout, path, server, user string) error {
	var failed error
	read := func(name string) []byte {
		data, err := os.ReadFile(l.Credential(name))
		failed = errors.Join(failed, err)
		return data
	}

	type object = map[string]any
	doc := object{
		"apiVersion": "v1", "kind": "Config", "current-context": "porthole",
		"clusters": []object{{"name": "porthole",
			"cluster": object{"server": server, "certificate-authority-data": read("ca.crt")}}},
		"users": []object{{"name": user,
			"user": object{"client-certificate-data": read(user + ".crt"), "client-key-data": read(user + ".key")}}},
		"contexts": []object{{"name": "porthole", "context": object{"cluster": "porthole", "user": user}}},
	}

	data, err := json.MarshalIndent(doc, "", "  ")
	if err := errors.Join(failed, err); err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return atomicfile.WriteThrough(path, data, 0o600)
}
