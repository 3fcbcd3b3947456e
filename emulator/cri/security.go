package cri

import (
	"context"
	"errors"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/guest"
)

// hostProcessAnnotation marks the sandbox of a HostProcess pod.
const hostProcessAnnotation = "porthole.dev/host-process"

// errHostProcess has containerd's text (2.3.6: buildWindowsSpec in internal/cri/server/container_create.go).
var errHostProcess = errors.New("pod spec and all containers inside must have the HostProcess field set to be valid")

// checkHostProcess refuses a container that runs on the host itself while its pod does not, or the other way round. containerd
// compares the container with the sandbox's configuration in the request; hcsshim then with the sandbox that there is.
func (s *Server) checkHostProcess(ctx context.Context, r *runtimeapi.CreateContainerRequest) error {
	own := r.GetConfig().GetWindows().GetSecurityContext().GetHostProcess()
	if own != r.GetSandboxConfig().GetWindows().GetSecurityContext().GetHostProcess() {
		return errHostProcess
	}
	st, err := s.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: r.GetPodSandboxId()})
	if err != nil {
		return err
	}
	if _, made := st.GetStatus().GetAnnotations()[hostProcessAnnotation]; made != own {
		return errHostProcess
	}
	return nil
}

// userOf returns the user name that a container's programs see: the one that was asked for, else the image's, else the default. It is ""
// for a HostProcess container, whose programs see the host's user.
func userOf(c *runtimeapi.ContainerConfig, image v1.ImageConfig) string {
	security := c.GetWindows().GetSecurityContext()
	switch {
	case security.GetHostProcess():
		return ""
	case security.GetRunAsUsername() != "":
		return security.GetRunAsUsername()
	case image.User != "":
		return image.User
	}
	return "ContainerAdministrator"
}

// checkSandboxUser returns containerd's error if the program of a sandbox cannot run as the pod's user.
func checkSandboxUser(w *runtimeapi.PodSandboxConfig) error {
	if guest.KnownUser(w.GetWindows().GetSecurityContext().GetRunAsUsername()) {
		return nil
	}
	return status.Errorf(codes.Unknown, "failed to start sandbox %q: failed to create containerd task: failed to start shim task: hcs::System::CreateProcess: %s: unknown",
		w.GetMetadata().GetName(), guest.WrongUser)
}
