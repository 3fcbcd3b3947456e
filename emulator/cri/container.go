package cri

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/wine"
)

// StartContainer makes sure that C: is mounted, and refuses a program or user that does not exist with the text of Windows. It returns
// when the program is loaded. A container that could not be started has the state exited.
func (s service) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	f, err := s.folderOf(ctx, r.ContainerId)
	if err != nil {
		return nil, err
	}
	rec, err := f.load()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "starting container: reading its record: %v", err)
	}
	if err := f.mount(); err != nil {
		return nil, status.Errorf(codes.Internal, "starting container: %v", err)
	}

	if why := s.refused(f, rec, r.ContainerId); why != "" {
		return nil, s.refuseStart(ctx, f, rec, r.ContainerId, why)
	}
	answer, err := s.runtime.StartContainer(ctx, r)
	if err != nil {
		if ended := s.lateFailure(ctx); ended != nil {
			return nil, ended
		}
		return nil, err
	}
	programs{s.containerd}.untilLoaded(ctx, r.ContainerId)
	return answer, nil
}

// refused returns why Windows would not start a container, with the text of containerd on Windows; "" if it would.
func (s *Server) refused(f folder, rec record, id string) string {
	process := func(text string) string {
		return fmt.Sprintf("failed to start containerd task %q: hcs::System::CreateProcess %s: %s: unknown", rec.Name, id, text)
	}
	switch {
	case rec.Mismatch:
		return "failed to create containerd task: failed to create shim task: " + fmt.Sprintf(mismatch, id)
	case !guest.KnownUser(rec.User):
		return process(guest.WrongUser)
	case !s.programExists(f, rec):
		return process("The system cannot find the file specified.")
	}
	return ""
}

// refuseStart makes containerd's start of a container fail, so that the container has the state exited as on Windows. It returns why as
// an error.
func (s service) refuseStart(ctx context.Context, f folder, rec record, id, why string) error {
	rec.StartError = why
	if err := f.save(rec); err != nil {
		return status.Errorf(codes.Internal, "starting container: %v", err)
	}

	// runc starts nothing if the source of a mount is missing.
	if err := os.Rename(f.path("tmp"), f.path("absent")); err != nil {
		return status.Errorf(codes.Internal, "starting container: %v", err)
	}
	_, err := s.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	if back := os.Rename(f.path("absent"), f.path("tmp")); back != nil {
		return status.Errorf(codes.Internal, "starting container: %v", back)
	}
	if err == nil {
		return status.Errorf(codes.Internal, "starting container: it was started without its folder %s", f.path("tmp"))
	}
	if err := s.lateFailure(ctx); err != nil {
		return err
	}
	return status.Error(codes.Unknown, rec.StartError)
}

// lateFailure waits as long as containerd on Windows does before it returns the error of a failed start. It returns an error if ctx ends.
func (s *Server) lateFailure(ctx context.Context) error {
	if !s.profile().LateEnds {
		return nil
	}
	return pause(ctx, lateBy)
}

// findProgram returns the path of a container's program on C:, or "" if it is not there.
func findProgram(f folder, command []string, dir, path string) string {
	for _, candidate := range guest.ProgramCandidates(command[0], dir, path) {
		if linux, err := wine.LinuxPath(f.driveC(), candidate); err == nil {
			if info, err := os.Stat(linux); err == nil && !info.IsDir() {
				return candidate
			}
		}
	}
	return ""
}

// programExists looks for the program in C: and in what is mounted into it.
func (s *Server) programExists(f folder, rec record) bool {
	if findProgram(f, rec.Command, rec.Dir, rec.Path) != "" {
		return true
	}
	for _, candidate := range guest.ProgramCandidates(rec.Command[0], rec.Dir, rec.Path) {
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
	s.windowsEnd(c, rec)
	s.hideEnd(c)
	c.Mounts = rec.Mounts
	c.Resources = nil
	if rec.Resources != nil {
		c.Resources = &runtimeapi.ContainerResources{Windows: rec.Resources}
	}
	c.User = &runtimeapi.ContainerUser{}
}

// windowsEnd sets the exit code and message of a container that has ended to those of Windows. Linux keeps only the lowest 8 bits of an
// exit code, and has another message for a start that failed.
func (s *Server) windowsEnd(c *runtimeapi.ContainerStatus, rec record) {
	if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		return
	}
	if rec.StartError != "" {
		c.Message = rec.StartError
		return
	}
	if c.Reason == oomKilled {
		c.ExitCode = killedCode // the kernel kills the program; the launcher, which is the first process, may live and end with 0
		return
	}
	code, ok := s.folder(c.Annotations[keyAnnotation]).exitCode()
	if !ok || int32(linuxExitCode(code)) != c.ExitCode {
		return // the container was killed
	}
	c.ExitCode = code
}

// Reason and exit code of a container that was killed because of its memory limit: containerd's reason, and the code for SIGKILL.
const (
	oomKilled  = "OOMKilled"
	killedCode = 137
)

// linuxExitCode returns the Linux exit code that Wine gives for a Windows one: its lowest 8 bits, or 1 if these are 0 and the code is
// not (Wine 8.0: get_unix_exit_code in dlls/ntdll/unix/loader.c).
func linuxExitCode(code int32) uint8 {
	if code != 0 && code&0xff == 0 {
		return 1
	}
	return uint8(code)
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

// ExecSync runs a Windows program in the container, when the container's own is loaded.
func (s service) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	if err := (programs{s.containerd}).beforeExec(ctx, r.ContainerId, time.Duration(r.Timeout)*time.Second); err != nil {
		return nil, err
	}
	return s.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: r.ContainerId, Cmd: s.byWine(r.Cmd), Timeout: r.Timeout})
}

// Exec prepares a stream when the container's own program is loaded; its URL is one of containerd's streaming server, on the loopback
// that the kubelet shares.
func (s service) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if err := (programs{s.containerd}).beforeExec(ctx, r.ContainerId, 0); err != nil {
		return nil, err
	}
	return s.runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: r.ContainerId, Cmd: s.byWine(r.Cmd), Tty: r.Tty, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
	})
}

func (s *Server) byWine(command []string) []string {
	return append([]string{s.o.Wine}, guest.Rooted(command)...)
}
