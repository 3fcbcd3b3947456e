package pod

import v1 "k8s.io/api/core/v1"

// SourceAnnotation says where the kubelet has a pod from: api, file or http. Upstream's kubelet and its clients use it.
const SourceAnnotation = "kubernetes.io/config.source"

// IsStatic reports whether a pod came from a file or a web address, and not from the API.
func IsStatic(p *v1.Pod) bool {
	source := p.Annotations[SourceAnnotation]
	return source != "" && source != "api"
}
