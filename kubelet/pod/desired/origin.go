package desired

import v1 "k8s.io/api/core/v1"

// SourceAnnotation says where the kubelet has a pod from: api, file or http. Upstream's kubelet and its clients use it.
const SourceAnnotation = "kubernetes.io/config.source"

// IsStatic reports whether a pod came from a file or a web address, and not from the API.
func IsStatic(p *v1.Pod) bool {
	source := p.Annotations[SourceAnnotation]
	return source != "" && source != "api"
}

// systemCritical is the least priority of pods that are critical for the cluster (scheduling.SystemCriticalPriority).
const systemCritical = 2_000_000_000

// IsCritical reports whether a pod must not end to make room for others: static pods, and those of the system's
// priority.
func IsCritical(p *v1.Pod) bool {
	return IsStatic(p) || p.Spec.Priority != nil && *p.Spec.Priority >= systemCritical
}
