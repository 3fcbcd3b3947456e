package install

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
)

// KubeconfigText is the kubeconfig that kubeadm's nodes have: the certificate is a file, which the kubelet replaces
// when it renews it.
func (n *Node) KubeconfigText() []byte {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return fmt.Appendf(nil, `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: %s
    server: %s
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    namespace: default
    user: %[3]s
  name: %[3]s@kubernetes
current-context: %[3]s@kubernetes
kind: Config
users:
- name: %[3]s
  user:
    client-certificate: %[4]s
    client-key: %[4]s
`, base64.StdEncoding.EncodeToString(n.Cluster.CA), n.Cluster.Server, "system:node:"+n.Name, quote(n.Pair()))
}

// KubeconfigSteps are the steps of the kubeconfig and of the authority's file, which kubelet-config names.
func KubeconfigSteps(n *Node) []File {
	return []File{
		{Name: "file/" + filepath.Base(n.CAFile()), Path: n.CAFile(), Perm: 0o644,
			Content: func() []byte { return n.Cluster.CA }},
		{Name: "file/" + filepath.Base(n.Kubeconfig()), Path: n.Kubeconfig(), Perm: 0o600, Content: n.KubeconfigText},
	}
}
