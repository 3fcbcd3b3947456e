package manifests

import (
	_ "embed"
	"encoding/json"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/emulator/lab"
	"porthole.dev/porthole/join/manifest"
)

//go:embed join.yaml
var joinManifest string

type object = map[string]any

// Joins returns the manifests of what machines that join the cluster need. caPEM is the certificate of the cluster's
// authority.
func Joins(c config.Cluster, caPEM []byte) ([]string, error) {
	read, err := joinConfig(c, caPEM)
	if err != nil {
		return nil, err
	}
	own, err := declaration(c)
	return []string{joinManifest, read, own}, err
}

// joinConfig returns the ConfigMaps that `porthole join` and `kubeadm join` read, as a manifest. caPEM is the
// certificate of the cluster's authority. The bootstrap signer of the controller manager adds a signature for each
// token to the first of them.
func joinConfig(c config.Cluster, caPEM []byte) (string, error) {
	ranges, err := c.Ranges()
	if err != nil {
		return "", err
	}
	info := object{
		"apiVersion": "v1", "kind": "Config", "preferences": object{}, "contexts": nil, "current-context": "",
		"users": nil,
		"clusters": []object{{"name": "",
			"cluster": object{"certificate-authority-data": caPEM, "server": "https://" + config.APIServer()}}},
	}
	settings := object{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "clusterName": "porthole",
		"kubernetesVersion":    config.Version,
		"controlPlaneEndpoint": config.APIServer(),
		"networking": object{"dnsDomain": config.Domain, "podSubnet": ranges.PodCIDRs(),
			"serviceSubnet": ranges.ServiceCIDRs()},
	}
	kubelet := object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
		"authorization": object{"mode": "Webhook"},
		"cgroupDriver":  "cgroupfs", "clusterDNS": []string{lab.ClusterDNS.String()}, "config.Domain": config.Domain,
		"failSwapOn": false,
		// As on the cluster's own nodes: what nodes share a disk with is none of their pods' business.
		"rotateCertificates": true, "serializeImagePulls": false, "imageGCHighThresholdPercent": 100,
		"evictionHard":  object{"memory.available": "100Mi"},
		"staticPodPath": "/etc/kubernetes/manifests",
	}
	proxy := object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clusterCIDR": ranges.PodCIDRs(), "mode": "nftables",
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
func declaration(c config.Cluster) (string, error) {
	ranges, err := c.Ranges()
	if err != nil {
		return "", err
	}
	return listOf(manifest.Objects(manifest.Options{Mode: c.Network, Pods: ranges.PodCIDRs(),
		Services: ranges.ServiceCIDRs(), NoDaemonSet: true}))
}

func listOf(items []object) (string, error) {
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	return string(text), err
}
