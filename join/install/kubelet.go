package install

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// KubeletOptions are what a user says about the kubelet.
type KubeletOptions struct {
	Runtime string   // endpoint of the CRI
	Labels  string   // key=value,…
	Taints  string   // key=value:effect,…
	Extra   []string // further arguments
	Patches [][]byte // merge patches for the configuration
}

// KubeletConfig returns config.yaml: what the cluster says, with the runtime of this machine and the user's patch.
func KubeletConfig(cluster string, o KubeletOptions) ([]byte, error) {
	doc := map[string]any{}
	if err := yaml.Unmarshal([]byte(cluster), &doc); err != nil {
		return nil, fmt.Errorf("reading ConfigMap kubelet-config: %w", err)
	}
	doc["containerRuntimeEndpoint"] = o.Runtime
	return patched(doc, o.Patches)
}

// Patch returns a configuration, as YAML, with merge patches carried out (RFC 7386).
func Patch(text []byte, patches [][]byte) ([]byte, error) {
	doc := map[string]any{}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	return patched(doc, patches)
}

func patched(doc map[string]any, patches [][]byte) ([]byte, error) {
	for _, text := range patches {
		patch := map[string]any{}
		if err := yaml.Unmarshal(text, &patch); err != nil {
			return nil, fmt.Errorf("reading --patches: %w", err)
		}
		merge(doc, patch)
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	return text, nil
}

// merge carries out a JSON merge patch (RFC 7386).
func merge(into, patch map[string]any) {
	for key, value := range patch {
		below, isMap := value.(map[string]any)
		there, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(there, below)
		default:
			into[key] = value
		}
	}
}

// InstanceConfig returns instance-config.yaml, from which `kubeadm upgrade node` learns the runtime of this machine.
func InstanceConfig(o KubeletOptions) []byte {
	return fmt.Appendf(nil,
		"apiVersion: kubelet.config.k8s.io/v1beta1\ncontainerRuntimeEndpoint: %s\nkind: KubeletConfiguration\n",
		o.Runtime)
}

// FlagsEnv returns kubeadm-flags.env, which the unit of the kubelet reads.
func (n *Node) FlagsEnv(o KubeletOptions) []byte {
	args := []string{"--hostname-override=" + n.Name}
	if n.IP != "" {
		args = append(args, "--node-ip="+n.IP)
	}
	if o.Labels != "" {
		args = append(args, "--node-labels="+o.Labels)
	}
	if o.Taints != "" {
		args = append(args, "--register-with-taints="+o.Taints)
	}
	text, _ := json.Marshal(strings.Join(append(args, o.Extra...), " ")) // of a string: no error
	return fmt.Appendf(nil, "KUBELET_KUBEADM_ARGS=%s\n", text)
}

// KubeletSteps are the steps of the kubelet's files. config is what KubeletConfig returned.
func KubeletSteps(n *Node, config []byte, o KubeletOptions) []File {
	file := func(name string, content []byte) File {
		return File{Name: "kubelet/" + name, Path: filepath.Join(n.Kubelet, name), Perm: 0o644,
			Content: func() []byte { return content }}
	}
	return []File{
		file("config.yaml", config),
		file("instance-config.yaml", InstanceConfig(o)),
		file("kubeadm-flags.env", n.FlagsEnv(o)),
	}
}
