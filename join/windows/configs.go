package windows

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/join/install"
	"porthole.dev/porthole/join/kubeletconfig"
)

// networkName is that of the HNS network that `porthole routes` makes.
const networkName = "porthole"

type object = map[string]any

// kubeletPaths are the files of kubeletFiles, and proxyPaths those of proxyFiles.
func (o *Options) kubeletPaths() []string {
	return []string{o.kubelet("config.yaml"), o.kubelet("instance-config.yaml"), o.kubelet("kubeadm-flags.env")}
}

func (o *Options) proxyPaths() []string { return []string{o.kubernetes("kube-proxy.yaml")} }

// kubeletFiles returns what the kubelet and `kubeadm upgrade node` read.
func (o *Options) kubeletFiles() (map[string][]byte, error) {
	config, _, err := kubeletconfig.ForWindows(o.KubeletConfig,
		kubeletconfig.Node{Root: o.Root, RuntimeEndpoint: o.RuntimeEndpoint})
	if err == nil && len(o.Patches) > 0 {
		config, err = install.Patch(config, o.Patches)
	}
	if err != nil {
		return nil, err
	}
	instance, err := yaml.Marshal(object{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": o.RuntimeEndpoint})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		o.kubelet("config.yaml"):          config,
		o.kubelet("instance-config.yaml"): instance,
		o.kubelet("kubeadm-flags.env"): fmt.Appendf(nil, "KUBELET_KUBEADM_ARGS=%q\n",
			strings.Join(o.machineArgs(), " ")),
	}, nil
}

// KubeletYAML returns the kubelet's configuration of this node.
func (o *Options) KubeletYAML() ([]byte, error) {
	files, err := o.kubeletFiles()
	return files[o.kubelet("config.yaml")], err
}

// proxyFiles returns the configuration of kube-proxy. It does not come from the cluster's, which is for Linux.
func (o *Options) proxyFiles() (map[string][]byte, error) {
	if o.NoProxy {
		return nil, nil
	}
	text, err := yaml.Marshal(object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "kernelspace",
		"clusterCIDR": o.PodCIDR, "hostnameOverride": o.Node, "clientConnection": object{"kubeconfig": o.Kubeconfig()},
		"healthzBindAddress": "0.0.0.0:10256", "metricsBindAddress": "127.0.0.1:10249",
		"winkernel": object{"networkName": networkName, "enableDSR": true},
	})
	return map[string][]byte{o.kubernetes("kube-proxy.yaml"): text}, err
}

// routesFiles returns what `porthole routes` reads; nothing in most modes.
func (o *Options) routesFiles() (map[string][]byte, error) {
	if o.BGPConfig == nil {
		return nil, nil
	}
	return map[string][]byte{o.BGPFile(): o.BGPConfig}, nil
}
