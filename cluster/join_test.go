package cluster

import (
	"crypto/x509"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestJoinConfig: the ConfigMaps have the names, keys and kinds that kubeadm reads.
func TestJoinConfig(t *testing.T) {
	text, err := joinConfig(DefaultConfig(), []byte("-----BEGIN CERTIFICATE-----"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
			Data     map[string]string
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]any{}
	for _, i := range list.Items {
		for key, value := range i.Data {
			var doc map[string]any
			if err := json.Unmarshal([]byte(value), &doc); err != nil {
				t.Errorf("%s: %v", i.Metadata.Name, err)
			}
			got[i.Metadata.Namespace+"/"+i.Metadata.Name+" "+key] = doc
		}
	}

	for name, kind := range map[string]string{
		"kube-public/cluster-info kubeconfig":             "Config",
		"kube-system/kubeadm-config ClusterConfiguration": "ClusterConfiguration",
		"kube-system/kubelet-config kubelet":              "KubeletConfiguration",
		"kube-system/kube-proxy config.conf":              "KubeProxyConfiguration",
	} {
		if got[name]["kind"] != kind {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	network, _ := got["kube-system/kubeadm-config ClusterConfiguration"]["networking"].(map[string]any)
	if network["podSubnet"] != "10.244.0.0/16" || network["serviceSubnet"] != "10.96.0.0/16" {
		t.Errorf("networking: %v", network)
	}
}

func TestToken(t *testing.T) {
	token, err := newToken(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	// bootstraputil.BootstrapTokenPattern
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token.String()) {
		t.Errorf("the token %s", token)
	}
	manifest, err := token.manifest()
	if err != nil || !strings.Contains(manifest, `"expiration":"1970-01-01T00:00:00Z"`) ||
		!strings.Contains(manifest, "bootstrap-token-"+token.ID) {
		t.Errorf("%s, %v", manifest, err)
	}
	line, err := joinCommand(token, &x509.Certificate{RawSubjectPublicKeyInfo: []byte("key")})
	want := "porthole join 10.99.0.11:6443 --token " + token.String() +
		" --discovery-token-ca-cert-hash sha256:2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"
	if err != nil || line != want {
		t.Errorf("%s, %v", line, err)
	}
}
