package kubeproxy

import (
	"fmt"
	"os"

	config "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// readConfig reads a KubeProxyConfiguration. Unknown fields are warnings: a newer cluster's file must not stop a node.
func readConfig(path string) (config.KubeProxyConfiguration, []string, error) {
	var cfg config.KubeProxyConfiguration
	if path == "" {
		return cfg, nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return cfg, nil, fmt.Errorf("reading --config: %w", err)
	}
	if err := yaml.Unmarshal(data, &cfg); err != nil {
		return cfg, nil, fmt.Errorf("reading --config %s: %w", path, err)
	}
	if cfg.Kind != "KubeProxyConfiguration" || cfg.APIVersion != "kubeproxy.config.k8s.io/v1alpha1" {
		return cfg, nil, fmt.Errorf("reading --config %s: it holds %q of %q, wanted is KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1",
			path, cfg.Kind, cfg.APIVersion)
	}
	var warnings []string
	var strict config.KubeProxyConfiguration
	if err := yaml.UnmarshalStrict(data, &strict); err != nil {
		warnings = append(warnings, fmt.Sprintf("%s: %v", path, err))
	}
	return cfg, warnings, nil
}
