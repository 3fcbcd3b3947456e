package manifests

import (
	"encoding/json"
	"testing"

	"porthole.dev/porthole/cluster/config"
)

// TestJoinConfig: the ConfigMaps have the names, keys and kinds that kubeadm reads.
func TestJoinConfig(t *testing.T) {
	text, err := joinConfig(config.Default(), []byte("-----BEGIN CERTIFICATE-----"))
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
