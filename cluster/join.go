package cluster

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"

	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/join/manifest"
)

//go:embed manifests/join.yaml
var joinManifest string

type object = map[string]any

// nodeTokens is the group of bootstrap tokens that may make a machine a node, as kubeadm calls it.
const nodeTokens = "system:bootstrappers:kubeadm:default-node-token"

// joinConfig returns the ConfigMaps that `porthole join` and `kubeadm join` read, as a manifest. caPEM is the
// certificate of the cluster's authority. The bootstrap signer of the controller manager adds a signature for each
// token to the first of them.
func joinConfig(c Config, caPEM []byte) (string, error) {
	ranges, err := c.ranges()
	if err != nil {
		return "", err
	}
	info := object{
		"apiVersion": "v1", "kind": "Config", "preferences": object{}, "contexts": nil, "current-context": "",
		"users": nil,
		"clusters": []object{{"name": "",
			"cluster": object{"certificate-authority-data": caPEM, "server": apiServer()}}},
	}
	settings := object{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "clusterName": "porthole",
		"kubernetesVersion":    Version,
		"controlPlaneEndpoint": strings.TrimPrefix(apiServer(), "https://"),
		"networking": object{"dnsDomain": clusterDomain, "podSubnet": join(ranges.pods),
			"serviceSubnet": join(ranges.services)},
	}
	kubelet := object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
		"authorization": object{"mode": "Webhook"},
		"cgroupDriver":  "cgroupfs", "clusterDNS": []string{lab.ClusterDNS.String()}, "clusterDomain": clusterDomain,
		"failSwapOn": false,
		// As on the cluster's own nodes: what nodes share a disk with is none of their pods' business.
		"rotateCertificates": true, "serializeImagePulls": false, "imageGCHighThresholdPercent": 100,
		"evictionHard":  object{"memory.available": "100Mi"},
		"staticPodPath": "/etc/kubernetes/manifests",
	}
	proxy := object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clusterCIDR": join(ranges.pods), "mode": "nftables",
	}

	items := []object{}
	for _, m := range []struct {
		namespace, name, key string
		doc                  object
	}{
		{"kube-public", "cluster-info", "kubeconfig", info},
		{"kube-system", "kubeadm-config", "ClusterConfiguration", settings},
		{"kube-system", "kubelet-config", "kubelet", kubelet},
		{"kube-system", "kube-proxy", "config.conf", proxy},
	} {
		text, err := json.MarshalIndent(m.doc, "", "  ")
		if err != nil {
			return "", err
		}
		items = append(items, object{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": object{"namespace": m.namespace, "name": m.name}, "data": object{m.key: string(text)}})
	}
	return listOf(items)
}

// declaration returns the objects of `porthole manifests`, by which a joining machine knows the cluster's network
// before anything is changed, and a node has the rights that kubelet, kube-proxy and routes need. Linux nodes have
// their routes from programs of their own.
func declaration(c Config) (string, error) {
	ranges, err := c.ranges()
	if err != nil {
		return "", err
	}
	return listOf(manifest.Objects(manifest.Options{Mode: c.Network, Pods: join(ranges.pods),
		Services: join(ranges.services), NoDaemonSet: true}))
}

func listOf(items []object) (string, error) {
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	return string(text), err
}

const clusterDomain = "cluster.local"

// Token is a bootstrap token.
type Token struct {
	ID, Secret string
	Expires    time.Time
}

// String returns the token as commands take it.
func (t Token) String() string { return t.ID + "." + t.Secret }

// newToken makes a token that is valid until a time. Its form is that of kubeadm's tokens.
func newToken(expires time.Time) (Token, error) {
	text, err := randomText(6 + 16)
	return Token{ID: text[:6], Secret: text[6:], Expires: expires}, err
}

// randomText returns n characters of a-z and 0-9 that nobody can guess.
func randomText(n int) (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	out := make([]byte, n)
	for i := range out {
		at, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", fmt.Errorf("making a token: %w", err)
		}
		out[i] = letters[at.Int64()]
	}
	return string(out), nil
}

// manifest is the Secret by which the API server knows the token. The token cleaner deletes it when it has expired.
func (t Token) manifest() (string, error) {
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
		"metadata": object{"namespace": "kube-system", "name": "bootstrap-token-" + t.ID},
		"stringData": object{"token-id": t.ID, "token-secret": t.Secret,
			"expiration":                     t.Expires.UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": nodeTokens}})
	return string(text), err
}

// joinCommand returns the command line that makes a machine a node of the cluster.
func joinCommand(t Token, ca *x509.Certificate) (string, error) {
	server, err := url.Parse(apiServer())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return fmt.Sprintf("porthole join %s --token %s --discovery-token-ca-cert-hash sha256:%s", server.Host, t,
		hex.EncodeToString(sum[:])), nil
}
