// Package settings are the configuration files of Kubernetes' own programs in a local cluster: those of the control
// plane, and the kubelet's and the service proxy's of a node.
package settings

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/emulator/host"
	"porthole.dev/porthole/emulator/lab"
)

const etcdURL = "http://127.0.0.1:2379"

// ControlPlane is the file that `kube controlplane` reads: upstream's flags for a cluster with node
// authorisation, token bootstrap and an aggregation layer that reaches pods directly.
func ControlPlane(l layout.Layout, c config.Cluster) ([]byte, error) {
	ranges, err := c.Ranges()
	if err != nil {
		return nil, err
	}
	doc := map[string]any{
		"etcd": map[string]string{"dataDir": filepath.Join(l.ControlPlane(), "etcd"), "clientURL": etcdURL,
			"peerURL": "http://127.0.0.1:2380"},
		"apiServer": []string{
			"--advertise-address=" + config.ControlPlane().String(), "--secure-port=6443",
			"--etcd-servers=" + etcdURL,
			"--service-cluster-ip-range=" + ranges.ServiceCIDRs(),
			"--tls-cert-file=" + l.Credential("apiserver.crt"),
			"--tls-private-key-file=" + l.Credential("apiserver.key"),
			"--client-ca-file=" + l.Credential("ca.crt"),
			"--kubelet-client-certificate=" + l.Credential("apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + l.Credential("apiserver-kubelet-client.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + l.Credential("sa.key"),
			"--service-account-signing-key-file=" + l.Credential("sa.key"),
			"--requestheader-client-ca-file=" + l.Credential("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + l.Credential("front-proxy-client.crt"),
			"--proxy-client-key-file=" + l.Credential("front-proxy-client.key"),
			"--enable-aggregator-routing=true",
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--enable-bootstrap-token-auth=true",
			"--allow-privileged=true", // as kubeadm sets it; the policy of a namespace decides
			"--profiling=false",
		},
		"controllerManager": append(ranges.MaskFlags(),
			"--kubeconfig="+l.KubeconfigOf("controller-manager"),
			"--authentication-kubeconfig="+l.KubeconfigOf("controller-manager"),
			"--authorization-kubeconfig="+l.KubeconfigOf("controller-manager"),
			"--allocate-node-cidrs=true", "--cluster-cidr="+ranges.PodCIDRs(),
			"--service-cluster-ip-range="+ranges.ServiceCIDRs(),
			"--root-ca-file="+l.Credential("ca.crt"), "--service-account-private-key-file="+l.Credential("sa.key"),
			"--cluster-signing-cert-file="+l.Credential("ca.crt"), "--cluster-signing-key-file="+l.Credential("ca.key"),
			"--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1",
			"--controllers=*,bootstrapsigner,tokencleaner",
			// Its certificate stays in memory. In files, which it writes without fsync, a power failure leaves nothing,
			// and it ends for ever.
			"--cert-dir=",
		),
		"scheduler": []string{
			"--kubeconfig=" + l.KubeconfigOf("scheduler"),
			"--authentication-kubeconfig=" + l.KubeconfigOf("scheduler"),
			"--authorization-kubeconfig=" + l.KubeconfigOf("scheduler"), "--leader-elect=false",
			"--bind-address=127.0.0.1",
		},
	}

	return json.MarshalIndent(doc, "", "  ")
}

// Kubelet returns the KubeletConfiguration of a node. On a Windows node every path is the node's own C: path,
// and its CRI is the named pipe of containerd.
func Kubelet(l layout.Layout, c config.Cluster, n config.Node) ([]byte, error) {
	doc := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{"anonymous": map[string]bool{"enabled": false},
			"webhook": map[string]bool{"enabled": true},
			"x509":    map[string]string{"clientCAFile": kubeletFile(l, n, "ca.crt")}},
		"authorization":               map[string]string{"mode": "Webhook"},
		"clusterDomain":               config.Domain,
		"clusterDNS":                  []string{lab.ClusterDNS.String()},
		"tlsCertFile":                 kubeletFile(l, n, "kubelet.crt"),
		"tlsPrivateKeyFile":           kubeletFile(l, n, "kubelet.key"),
		"failCgroupV1":                false,
		"failSwapOn":                  false,
		"cgroupRoot":                  c.Lab().Cgroup(n.Name), // apart from those of other nodes on this machine
		"podLogsDir":                  podLogs(l, n),
		"serializeImagePulls":         false,
		"shutdownGracePeriod":         "0s",
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                map[string]string{"memory.available": "100Mi"},
	}

	if n.Windows {
		doc["containerRuntimeEndpoint"] = "npipe:" + strings.ReplaceAll(host.RuntimePipe, `\`, "/")
		delete(doc, "cgroupRoot")
		doc["evictionHard"] = map[string]string{"memory.available": "500Mi"}
		doc["resolvConf"] = kubeletFile(l, n, "resolv.conf")
	} else {
		doc["containerRuntimeEndpoint"] = "unix://" + l.ContainerdSocket(n.Name)
		doc["resolvConf"] = l.NodeFile(n.Name, "resolv.conf")
	}
	return json.MarshalIndent(doc, "", "  ")
}

// kubeletFile is the path of a file of /etc/kubernetes as the node's kubelet sees it.
func kubeletFile(l layout.Layout, n config.Node, name string) string {
	if n.Windows {
		return `C:\etc\kubernetes\` + name
	}
	return l.NodeFile(n.Name, "kubernetes", name)
}

func podLogs(l layout.Layout, n config.Node) string {
	if n.Windows {
		return `C:\var\log\pods`
	}
	return l.PodLogs(n.Name)
}

// hnsNetwork is the name of the HNS network that `porthole routes` makes on a Windows node.
const hnsNetwork = "porthole"

// Proxy is the KubeProxyConfiguration of a node: ours in kernel mode on Windows, upstream's with nftables on
// Linux.
func Proxy(l layout.Layout, c config.Cluster, n config.Node) ([]byte, error) {
	ranges, err := c.Ranges()
	if err != nil {
		return nil, err
	}
	doc := map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clusterCIDR": ranges.PodCIDRs(), "hostnameOverride": n.Name,
		"clientConnection":   map[string]string{"kubeconfig": kubeletFile(l, n, "kube-proxy.kubeconfig")},
		"healthzBindAddress": "0.0.0.0:10256", "metricsBindAddress": "127.0.0.1:10249",
	}
	if n.Windows {
		doc["mode"] = "kernelspace"
		doc["winkernel"] = map[string]any{"networkName": hnsNetwork, "enableDSR": true}
	} else {
		doc["mode"] = "nftables"
		doc["conntrack"] = map[string]any{"maxPerCore": 0}
	}
	return json.MarshalIndent(doc, "", "  ")
}
