package join

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"
)

// checkLabels refuses labels that a node may not give itself, with the command by which an administrator can.
func checkLabels(text, node string) error {
	if node == "" {
		node = "NODE"
	}

	for _, label := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(label, "=")
		if label == "" {
			continue
		}
		if !ok {
			return fmt.Errorf("--node-labels: %q is not key=value", label)
		}
		if problems := append(validation.IsQualifiedName(key),
			validation.IsValidLabelValue(value)...); len(problems) > 0 {
			return fmt.Errorf("--node-labels: %q cannot be a label: %s", label, problems[0])
		}
		// A domain of Kubernetes is reserved, but for the labels that the API server lets a kubelet
		// set.
		domain, _, has := strings.Cut(key, "/")
		reserved := domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "k8s.io" ||
			strings.HasSuffix(domain, ".k8s.io")
		if has && reserved && !kubeletapis.IsKubeletLabel(key) {
			return fmt.Errorf("--node-labels: a node may not give itself the label %s: kubectl label node %s %s", key,
				node, label)
		}
	}
	return nil
}
