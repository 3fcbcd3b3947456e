package cri

import (
	"context"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/wine"
)

// StartContainer makes sure that C: is mounted and that the program exists, and says the latter as Windows does. It returns
// when the program is loaded.
func (s service) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	f, err := s.folderOf(ctx, r.ContainerId)
	if err != nil {
		return nil, err
	}
	rec, err := f.load()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "starting container: reading its record: %v", err)
	}
	if rec.Mismatch {
		return nil, status.Errorf(codes.Unknown, "failed to create containerd task: failed to create shim task: "+mismatch, r.ContainerId)
	}
	if err := f.mount(); err != nil {
		return nil, status.Errorf(codes.Internal, "starting container: %v", err)
	}
	if !s.programExists(f, rec) {
		return nil, status.Errorf(codes.NotFound, "starting container: %s: The system cannot find the file specified. (0x2)", rec.Command[0])
	}
	answer, err := s.runtime.StartContainer(ctx, r)
	if err != nil {
		return nil, err
	}
	s.untilLoaded(ctx, r.ContainerId, rec.Command)
	return answer, nil
}

// programExists looks for the program in C: and in what is mounted into it.
func (s *Server) programExists(f folder, rec record) bool {
	for _, candidate := range programCandidates(rec.Command[0], rec.Dir, rec.Path) {
		if linux, err := wine.LinuxPath(f.driveC(), candidate); err == nil {
			if info, err := os.Stat(linux); err == nil && !info.IsDir() {
				return true
			}
		}
		for _, m := range rec.Mounts {
			at := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(candidate), "c:"), `\`, "/")
			under := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(m.ContainerPath), "c:"), `\`, "/")
			if strings.HasPrefix(at, under) {
				return true
			}
		}
	}
	return false
}

// RemoveContainer also removes the container's folder.
func (s service) RemoveContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	f, err := s.folderOf(ctx, r.ContainerId)
	if err != nil && status.Code(err) != codes.NotFound {
		return nil, err
	}
	answer, removeErr := s.runtime.RemoveContainer(ctx, r)
	if removeErr != nil {
		return nil, removeErr
	}
	if err == nil {
		if err := f.remove(); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return answer, nil
}

func (s *Server) folderOf(ctx context.Context, id string) (folder, error) {
	st, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return folder{}, err
	}
	return s.folder(st.GetStatus().GetAnnotations()[keyAnnotation]), nil
}

// ContainerStatus answers in Windows terms.
func (s service) ContainerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	answer, err := s.runtime.ContainerStatus(ctx, r)
	if err != nil {
		return nil, err
	}
	s.windowsStatus(answer.Status)
	return answer, nil
}

// windowsStatus puts back what the kubelet had asked for.
func (s *Server) windowsStatus(c *runtimeapi.ContainerStatus) {
	if c == nil {
		return
	}
	if path, err := wine.WindowsPath(s.o.driveC(), c.LogPath); err == nil {
		c.LogPath = path
	}
	rec, err := s.folder(c.Annotations[keyAnnotation]).load()
	if err != nil {
		return // the container is being removed
	}
	c.Mounts = rec.Mounts
	c.Resources = nil
	if rec.Resources != nil {
		c.Resources = &runtimeapi.ContainerResources{Windows: rec.Resources}
	}
	c.User = nil
}

// UpdateContainerResources takes Windows resources.
func (s service) UpdateContainerResources(ctx context.Context, r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	f, err := s.folderOf(ctx, r.ContainerId)
	if err != nil {
		return nil, err
	}
	rec, err := f.load()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "updating container: reading its record: %v", err)
	}
	answer, err := s.runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: r.ContainerId, Linux: linuxResources(r.GetWindows(), s.o.CPUs), Annotations: r.Annotations,
	})
	if err != nil {
		return nil, err
	}
	rec.Resources = r.GetWindows()
	if err := f.save(rec); err != nil {
		return nil, status.Errorf(codes.Internal, "updating container: %v", err)
	}
	return answer, nil
}

// ExecSync runs a Windows program in the container.
func (s service) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return s.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: r.ContainerId, Cmd: s.byWine(r.Cmd), Timeout: r.Timeout})
}

// Exec prepares a stream; its URL is one of containerd's streaming server, on the loopback that the kubelet shares.
func (s service) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return s.runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: r.ContainerId, Cmd: s.byWine(r.Cmd), Tty: r.Tty, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
	})
}

func (s *Server) byWine(command []string) []string {
	return append([]string{s.o.Wine}, rooted(command)...)
}

// GetContainerEvents passes containerd's events on, with statuses in Windows terms.
func (s service) GetContainerEvents(r *runtimeapi.GetEventsRequest, to grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	from, err := s.runtime.GetContainerEvents(to.Context(), r)
	if err != nil {
		return err
	}
	for {
		event, err := from.Recv()
		if err != nil {
			return err
		}
		for _, c := range event.ContainersStatuses {
			s.windowsStatus(c)
		}
		windowsSandbox(event.PodSandboxStatus)
		if err := to.Send(event); err != nil {
			return err
		}
	}
}
