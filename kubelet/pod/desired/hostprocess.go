package desired

import (
	"errors"

	v1 "k8s.io/api/core/v1"
)

// HostProcess reports whether a container of a pod runs as a process of the Windows host itself. The container's own
// setting counts before the pod's.
func HostProcess(p *v1.Pod, c *v1.Container) bool {
	if own := c.SecurityContext; own != nil && own.WindowsOptions != nil && own.WindowsOptions.HostProcess != nil {
		return *own.WindowsOptions.HostProcess
	}
	return podHostProcess(p) != nil && *podHostProcess(p)
}

// podHostProcess returns the pod's setting for all its containers; nil if it has none.
func podHostProcess(p *v1.Pod) *bool {
	if p.Spec.SecurityContext == nil || p.Spec.SecurityContext.WindowsOptions == nil {
		return nil
	}
	return p.Spec.SecurityContext.WindowsOptions.HostProcess
}

// HostProcessPod reports whether the containers of a pod are HostProcess containers. Init and ephemeral containers
// count too. The runtime must know it when it makes the sandbox, even if only the containers have the setting. An
// error means that no Windows runtime can run the pod; its text is upstream's (generatePodSandboxWindowsConfig in
// pkg/kubelet/kuberuntime/kuberuntime_sandbox.go of 1.36.3).
func HostProcessPod(p *v1.Pod) (bool, error) {
	is, all := 0, 0
	for c := range All(p) {
		all++
		if HostProcess(p, c) {
			is++
		}
	}

	whole := podHostProcess(p)
	switch {
	case is == 0:
		return false, nil
	case is != all:
		return false, errors.New("pod must not contain both HostProcess and non-HostProcess containers")
	case !p.Spec.HostNetwork:
		return false, errors.New("hostNetwork is required if Pod contains HostProcess containers")
	case whole != nil && !*whole:
		return false, errors.New(
			"pod must not contain any HostProcess containers if Pod's WindowsOptions.HostProcess is set to false")
	}
	return true, nil
}

// AnyHostProcess reports whether a pod has a HostProcess container.
func AnyHostProcess(p *v1.Pod) bool {
	for c := range All(p) {
		if HostProcess(p, c) {
			return true
		}
	}
	return false
}
