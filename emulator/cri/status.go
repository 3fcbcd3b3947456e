package cri

import (
	"context"
	"fmt"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Status is containerd's, with the handlers of a Windows host without Hyper-V. The network is ready when there is a CNI configuration on
// C:, because the Linux one, which names our shim, always exists, and its plugins do not say otherwise.
func (s service) Status(ctx context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	answer, err := s.runtime.Status(ctx, r)
	if err != nil {
		return nil, err
	}
	answer.RuntimeHandlers = []*runtimeapi.RuntimeHandler{{}, {Name: processHandler}}
	if answer.Features != nil {
		answer.Features.UserNamespacesHostNetwork = false // containerd 2.3.6 has it on Linux only
	}
	_, err = WindowsCNIConfig(s.o.HostDir)
	if err == nil && s.o.CNIStatus != nil {
		err = s.o.CNIStatus(ctx)
	}
	if err != nil {
		for _, c := range answer.GetStatus().GetConditions() {
			if c.Type == runtimeapi.NetworkReady {
				c.Status, c.Reason = false, "NetworkPluginNotReady"
				c.Message = fmt.Sprintf("Network plugin returns error: %v", err)
			}
		}
	}
	return answer, nil
}

// cniConfDir is where a Windows node keeps its CNI configuration, relative to C:.
const cniConfDir = "etc/cni/net.d"

// WindowsCNIConfig finds the CNI configuration of a host: the first by name, as the CNI world has it.
func WindowsCNIConfig(hostDir string) (string, error) {
	dir := filepath.Join(hostDir, "prefix", "drive_c", filepath.FromSlash(cniConfDir))
	var first string
	for _, pattern := range []string{"*.conf", "*.conflist", "*.json"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, f := range found {
			if first == "" || f < first {
				first = f
			}
		}
	}
	if first == "" {
		return "", fmt.Errorf(`cni plugin not initialized: no CNI configuration in C:\etc\cni\net.d`)
	}
	return first, nil
}
