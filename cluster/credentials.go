package cluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/internal/atomicfile"
)

// apiServer is where nodes reach the API server: in lin01's namespace.
func apiServer() string { return fmt.Sprintf("https://%s:6443", address(11)) }

// The first address of the service range belongs to the API server's own service.
func apiServiceIP() string { return lab.ServiceIPs.Addr().Next().String() }

// ensureCredentials makes the authorities, keys, certificates and kubeconfigs that are missing.
func ensureCredentials(l Layout, c Config) error {
	ca, err := loadAuthority(l.PKI(), "ca")
	if err != nil {
		return err
	}

	front, err := loadAuthority(l.PKI(), "front-proxy-ca")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(l.PKI(), "sa.key")); errors.Is(err, os.ErrNotExist) {
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
			hosts: []string{"127.0.0.1", "localhost", address(11).String(), apiServiceIP(),
				"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
				"lin01"}},
		{file: "apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", group: "system:masters"},
		{file: "admin", user: "kubernetes-admin", group: "system:masters"},
		{file: "controller-manager", user: "system:kube-controller-manager"},
		{file: "scheduler", user: "system:kube-scheduler"},
		{file: "kube-proxy", user: "system:kube-proxy"},
		{file: "routes", user: "porthole:routes"},
		{file: "ovn", user: "porthole:ovn"},
	}

	ids = append(ids, metricsIdentities()...)
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
func writeKubeconfigs(l Layout, c Config) error {
	local := fmt.Sprintf("https://127.0.0.1:%d", c.APIPort)
	if err := writeKubeconfig(l, l.Kubeconfig(), local, "admin"); err != nil {
		return err
	}
	users := []string{"controller-manager", "scheduler", "kube-proxy", "routes", "ovn", "metrics-server"}
	for _, n := range c.Nodes() {
		users = append(users, "kubelet-"+n.Name)
	}
	for _, user := range users {
		if err := writeKubeconfig(l, kubeconfigOf(l, user), apiServer(), user); err != nil {
			return err
		}
	}
	return nil
}

func kubeconfigOf(l Layout, user string) string { return filepath.Join(l.PKI(), user+".kubeconfig") }

// ensureRegistryLogin makes the name and the password of who may push images: whoever may read the state folder.
func ensureRegistryLogin(l Layout) error {
	if _, err := os.Stat(l.RegistryLogin()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.WriteThrough(l.RegistryLogin(), []byte("porthole:"+rand.Text()+"\n"), 0o600)
}

// writeKubeconfig writes a kubeconfig (JSON is YAML) that carries its credentials, so that it can be copied to a host.
func writeKubeconfig(l Layout, path, server, user string) error {
	var failed error
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(l.PKI(), name))
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
