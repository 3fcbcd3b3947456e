package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/wine"
)

// RunPodSandbox makes the pod's namespaces; containerd calls the CNI shim, which makes the HCN namespace.
func (s service) RunPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	config, err := linuxSandbox(r.GetConfig(), s.o)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	handler, err := runtimeHandler(r.GetRuntimeHandler())
	if err != nil {
		return nil, err
	}
	if err := checkSandboxUser(r.GetConfig()); err != nil {
		return nil, err
	}
	return s.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
}

// processHandler is the handler of process isolation, containerd's default on Windows (internal/cri/config/config_windows.go). An
// emulated host is configured with this one only: it has no Hyper-V.
const processHandler = "runhcs-wcow-process"

// runtimeHandler translates the handlers that containerd on Windows is configured with. The error is containerd's for one that it
// does not have.
func runtimeHandler(handler string) (string, error) {
	switch handler {
	case "", processHandler:
		return "", nil
	}
	return "", fmt.Errorf("failed to get sandbox runtime: no runtime for %q is configured", handler)
}

// linuxSandbox is the sandbox that stands for a Windows pod: its own network and IPC, like a Windows pod's HCN
// namespace, or the host's network for a HostProcess pod.
func linuxSandbox(w *runtimeapi.PodSandboxConfig, o Options) (*runtimeapi.PodSandboxConfig, error) {
	if w.GetMetadata() == nil {
		return nil, fmt.Errorf("pod sandbox has no metadata")
	}
	logs := w.GetLogDirectory()
	if logs != "" {
		var err error
		if logs, err = wine.LinuxPath(o.driveC(), logs); err != nil {
			return nil, fmt.Errorf("log folder of pod %s: %w", w.GetMetadata().GetName(), err)
		}
	}

	network := runtimeapi.NamespaceMode_POD
	if w.GetWindows().GetSecurityContext().GetHostProcess() { // containerd on Windows looks at nothing else: docs/windows-facts.md
		network = runtimeapi.NamespaceMode_NODE
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: w.Metadata, Hostname: w.Hostname, LogDirectory: logs, DnsConfig: w.DnsConfig, PortMappings: w.PortMappings,
		Labels: w.Labels, Annotations: asked(w),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: o.cgroupParent(w.GetMetadata().GetUid()),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: network, Pid: runtimeapi.NamespaceMode_CONTAINER, Ipc: runtimeapi.NamespaceMode_POD},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
			},
		},
	}, nil
}

// namespacesAnnotation keeps the Linux namespaces that a kubelet asked for.
const namespacesAnnotation = "porthole.dev/namespaces"

// asked returns the pod's annotations with ours for the other settings of the request. containerd on Windows ignores Linux namespaces but
// shows them in the sandbox's status (2.3.6: toCRISandboxStatus in internal/cri/server/sandbox_status.go).
func asked(w *runtimeapi.PodSandboxConfig) map[string]string {
	more := map[string]string{}
	if w.GetWindows().GetSecurityContext().GetHostProcess() {
		more[hostProcessAnnotation] = "true"
	}
	if options := w.GetLinux().GetSecurityContext().GetNamespaceOptions(); options != nil {
		if text, err := protojson.Marshal(options); err == nil {
			more[namespacesAnnotation] = string(text)
		}
	}
	return merge(w.Annotations, more)
}

// windowsSandbox changes the status of a sandbox to what containerd on Windows shows.
func windowsSandbox(st *runtimeapi.PodSandboxStatus) {
	if st == nil {
		return
	}
	var options *runtimeapi.NamespaceOption
	if text, ok := st.Annotations[namespacesAnnotation]; ok {
		options = &runtimeapi.NamespaceOption{}
		if protojson.Unmarshal([]byte(text), options) != nil {
			options = nil
		}
	}
	st.Linux = &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}}
	hideOurs(st.Annotations)
}

// hideOurs removes the annotations that this package adds to a sandbox.
func hideOurs(annotations map[string]string) {
	delete(annotations, namespacesAnnotation)
	delete(annotations, hostProcessAnnotation)
}

// ListPodSandbox lists the sandboxes without the annotations that this package adds.
func (s service) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	answer, err := s.runtime.ListPodSandbox(ctx, r)
	for _, p := range answer.GetItems() {
		hideOurs(p.Annotations)
	}
	return answer, err
}

// PodSandboxStatus is the sandbox's and its containers', in Windows terms.
func (s service) PodSandboxStatus(ctx context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	answer, err := s.runtime.PodSandboxStatus(ctx, r)
	if err != nil {
		return nil, err
	}
	windowsSandbox(answer.Status)
	for _, c := range answer.ContainersStatuses {
		s.windowsStatus(c)
	}
	return answer, nil
}

// RemovePodSandbox also removes the pod's containers' folders and its cgroups.
func (s service) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	uid := ""
	if st, err := s.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: r.PodSandboxId}); err == nil {
		uid = st.GetStatus().GetMetadata().GetUid()
	}
	list, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: r.PodSandboxId}})
	if err != nil {
		return nil, err
	}
	answer, err := s.runtime.RemovePodSandbox(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, c := range list.Containers {
		if key := c.Annotations[keyAnnotation]; key != "" {
			if err := s.folder(key).remove(); err != nil {
				return nil, err
			}
		}
	}

	if uid != "" {
		s.removeCgroup(ctx, uid)
	}
	return answer, nil
}

// removeCgroup removes the pod's cgroup from every hierarchy. Another sandbox of the same pod may still be in it: then
// it stays, and that sandbox's removal takes it.
func (s *Server) removeCgroup(ctx context.Context, uid string) {
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*")
	if err != nil {
		return
	}
	for _, h := range append(hierarchies, "/sys/fs/cgroup") {
		path := filepath.Join(h, s.o.cgroupParent(uid))
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			klog.FromContext(ctx).V(4).Info("Pod's cgroup stays", "path", path, "reason", err.Error())
		}
	}
}

// RemoveCgroups removes the cgroups that a host's pods were in, for when the host is deleted. Its pods must be gone;
// what still has processes stays and is reported.
func RemoveCgroups(host string) error {
	var all []error

	for _, pattern := range []string{"/sys/fs/cgroup/*/porthole/", "/sys/fs/cgroup/porthole/"} {
		for _, below := range []string{host + "/*/*", host + "/*", host} {
			found, err := filepath.Glob(pattern + below)
			if err != nil {
				return err
			}
			for _, path := range found {
				if info, err := os.Stat(path); err != nil || !info.IsDir() {
					continue
				}
				if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
					all = append(all, fmt.Errorf("removing cgroup %s: %w", path, err))
				}
			}
		}
		roots, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, root := range roots {
			os.Remove(root) // the last host's removal empties it
		}
	}
	return errors.Join(all...)
}
