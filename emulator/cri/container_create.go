package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/uuid"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/emulator/guest"
	"porthole.dev/porthole/emulator/wine"
)

// CreateContainer makes the container's C: and registry, and a Linux container that runs the program by Wine on them.
func (s service) CreateContainer(ctx context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	name := r.GetConfig().GetMetadata().GetName()
	f := s.folder(string(uuid.NewUUID()))
	answer, err := s.create(namespaces.WithNamespace(ctx, namespace), f, r)
	if err == nil {
		return answer, nil
	}
	if cleanup := f.remove(); cleanup != nil {
		err = errors.Join(err, cleanup)
	}
	code := status.Code(err)
	if code == codes.Unknown && errors.Is(err, errRefused) {
		code = codes.InvalidArgument
	}
	return nil, status.Errorf(code, "creating container %s: %v", name, err)
}

// errRefused marks requests that no retry can help.
var errRefused = errors.New("refused")

// creation is a container that is being made.
type creation struct {
	r *runtimeapi.CreateContainerRequest
	c *runtimeapi.ContainerConfig // of r
	f folder

	image   v1.Image               // as it is on Windows
	command []string               // on Windows
	env     []*runtimeapi.KeyValue // of the Linux process
	mounts  []*runtimeapi.Mount    // in the Linux container
	// dir is the working folder on Windows, linuxDir in the Linux container.
	dir, linuxDir string
}

// create does the work of CreateContainer in the folder f, which the caller removes if it fails. The order matters: the image
// and the command are checked before anything is made, C: is mounted before paths on it are looked up, and what later calls need
// is saved before the Linux container exists.
func (s service) create(ctx context.Context, f folder, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	if err := s.checkHostProcess(ctx, r); err != nil {
		return nil, err
	}
	n := &creation{r: r, c: r.GetConfig(), f: f}
	if err := n.makeC(ctx, s); err != nil {
		return nil, err
	}
	if err := n.placeFolders(s); err != nil {
		return nil, err
	}

	sandbox, err := linuxSandbox(r.GetSandboxConfig(), s.o)
	if err != nil {
		return nil, err
	}
	security := n.c.GetWindows().GetSecurityContext()
	err = f.save(record{Mounts: n.c.GetMounts(), Resources: n.c.GetWindows().GetResources(), Command: n.command, Dir: n.dir, Path: value(n.env, "WINEPATH"),
		Log: n.c.GetLogPath(), Name: n.c.GetMetadata().GetName(), User: security.GetRunAsUsername(),
		Mismatch: !security.GetHostProcess() && !s.o.matcher().Match(n.image.Platform)})
	if err != nil {
		return nil, err
	}
	return s.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: r.GetPodSandboxId(), SandboxConfig: sandbox, Config: n.linuxConfig(s, sandbox),
	})
}

// makeC makes and mounts the container's C: with its registry, and learns command and environment from the image.
func (n *creation) makeC(ctx context.Context, s service) error {
	image, err := s.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: n.c.GetImage()})
	if err != nil {
		return err
	}
	if image.GetImage() == nil {
		return status.Errorf(codes.NotFound, "image %s is not on this host", n.c.GetImage().GetImage())
	}
	original, diffs, err := s.windowsImage(ctx, image.Image.Id)
	if err != nil {
		return err
	}
	n.image = original
	if n.command, err = commandOf(n.c, n.image.Config); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	lower, err := s.layersOfC(ctx, diffs)
	if err != nil {
		return err
	}

	n.env = environment(n.c, n.image.Config, s.o)
	if user := userOf(n.c, n.image.Config); user != "" {
		n.env = append(n.env, &runtimeapi.KeyValue{Key: "USERNAME", Value: []byte(user)})
	}
	hostname := n.r.GetSandboxConfig().GetHostname()
	if hostname != "" {
		n.env = append(n.env, &runtimeapi.KeyValue{Key: "COMPUTERNAME", Value: []byte(guest.ComputerName(hostname))})
	}
	system, user := registryAdditions(hostname, n.r.GetSandboxConfig().GetDnsConfig(), n.env)
	if domain := domainOf(n.c.GetWindows().GetSecurityContext().GetCredentialSpec()); domain != "" {
		system += guest.RegistryKey(domainKey, "CredentialSpecDomain", domain)
	}
	lower = append(lower, filepath.Join(s.o.Template, "drive_c"))
	if err := n.f.create(s.o.Template, lower, map[string]string{"system.reg": system, "user.reg": user}); err != nil {
		return err
	}
	return n.f.mount()
}

// placeFolders says where the mounts and the working folder are in the Linux container, and makes the latter.
func (n *creation) placeFolders(s service) (err error) {
	if n.c.GetWindows().GetSecurityContext().GetHostProcess() {
		if err := n.f.showImage(); err != nil {
			return err
		}
		n.env = append(n.env, &runtimeapi.KeyValue{Key: "CONTAINER_SANDBOX_MOUNT_POINT", Value: []byte(imageOfHostProcess)})
	}
	if n.mounts, err = s.mounts(n.f, n.c.GetMounts()); err != nil {
		return err
	}
	n.dir = workingDir(n.c, n.image.Config)
	if n.linuxDir, err = s.inContainer(n.f, n.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(n.f.driveC(), strings.TrimPrefix(n.linuxDir, guest.DriveC)), 0o755); err != nil {
		return fmt.Errorf("making the working folder: %w", err)
	}
	return nil
}

// linuxConfig is the Linux container that runs the program by Wine.
func (n *creation) linuxConfig(s service, sandbox *runtimeapi.PodSandboxConfig) *runtimeapi.ContainerConfig {
	c, namespaces := n.c, sandbox.Linux.SecurityContext.NamespaceOptions
	return &runtimeapi.ContainerConfig{
		Metadata: c.Metadata, Image: c.Image, LogPath: strings.ReplaceAll(c.LogPath, `\`, "/"),
		Labels: c.Labels, Annotations: merge(c.Annotations, map[string]string{keyAnnotation: filepath.Base(n.f.dir)}),
		Stdin: c.Stdin, StdinOnce: c.StdinOnce, Tty: c.Tty,
		Command: []string{s.o.Wine}, Args: guest.Launched(n.command, findProgram(n.f, n.command, n.dir, value(n.env, "WINEPATH"))),
		WorkingDir: n.linuxDir, Envs: n.env, Mounts: n.mounts,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       linuxResources(c.GetWindows().GetResources(), s.o.CPUs),
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces, Seccomp: sandbox.Linux.SecurityContext.Seccomp},
		},
	}
}

// layersOfC are the Files folders of the image's layers, top first, where containerd has unpacked them.
func (s *Server) layersOfC(ctx context.Context, diffs []digest.Digest) ([]string, error) {
	sn := s.containerd.SnapshotService(snapshotter)
	key := "porthole-" + string(uuid.NewUUID())
	mounts, err := sn.View(ctx, key, identity.ChainID(diffs).String(), snapshots.WithLabels(map[string]string{}))
	if err != nil {
		return nil, fmt.Errorf("finding the image's layers: %w", err)
	}
	defer sn.Remove(context.WithoutCancel(ctx), key)
	var roots, files []string
	for _, m := range mounts {
		if m.Type == "bind" {
			roots = append(roots, m.Source)
		}
		for _, o := range m.Options {
			if list, ok := strings.CutPrefix(o, "lowerdir="); ok {
				roots = append(roots, strings.Split(list, ":")...)
			}
		}
	}

	for _, root := range roots {
		dir := filepath.Join(root, "Files")
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			files = append(files, dir)
		}
	}
	return files, nil
}

// mounts translates the container's mounts and puts Wine's own in front.
func (s *Server) mounts(f folder, of []*runtimeapi.Mount) ([]*runtimeapi.Mount, error) {
	out := systemMounts(f)
	for _, m := range of {
		source, err := s.onHost(m.GetHostPath())
		if err != nil {
			return nil, fmt.Errorf("host path of the mount at %s: %w", m.GetContainerPath(), err)
		}
		target, err := s.inContainer(f, m.GetContainerPath())
		if err != nil {
			return nil, fmt.Errorf("mount of %s: %w", m.GetHostPath(), err)
		}
		if target == guest.DriveC {
			return nil, fmt.Errorf("%w: mount of %s: C:\\ itself cannot be mounted over", errRefused, m.GetHostPath())
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: target, HostPath: source, Readonly: m.GetReadonly()})
		if strings.EqualFold(target, guest.DriveC+"/"+guest.HostsFile) {
			out = append(out, &runtimeapi.Mount{ContainerPath: "/etc/hosts", HostPath: source, Readonly: true})
		}
	}
	return out, nil
}

// onHost is the Linux path of a Windows path on the host. A link that leads out of the host's C: is refused.
func (s *Server) onHost(path string) (string, error) {
	linux, err := windowsPath(s.o.driveC(), path)
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(s.o.driveC())
	if err != nil {
		return "", err
	}
	for at := linux; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if errors.Is(err, os.ErrNotExist) && at != s.o.driveC() {
			continue
		}
		if err != nil {
			return "", err
		}
		if real != root && !strings.HasPrefix(real, root+"/") {
			return "", fmt.Errorf("%w: %s leads out of the C: drive of the host", errRefused, path)
		}
		return linux, nil
	}
}

// inContainer is the path inside the Linux container of a Windows path of the container.
func (s *Server) inContainer(f folder, path string) (string, error) {
	linux, err := windowsPath(f.driveC(), path)
	if err != nil {
		return "", err
	}
	return guest.DriveC + strings.TrimPrefix(linux, f.driveC()), nil
}

// windowsPath translates a path on C:. Going up is refused outright: what it means would depend on links.
func windowsPath(driveC, path string) (string, error) {
	if strings.HasPrefix(path, `\\.\pipe\`) || strings.HasPrefix(path, `//./pipe/`) {
		return "", fmt.Errorf("%w: %s is a named pipe, which an emulated host cannot share", errRefused, path)
	}
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '\\' || r == '/' }) {
		if part == ".." {
			return "", fmt.Errorf(`%w: path %s goes up with "..": give the full path`, errRefused, path)
		}
	}
	linux, err := wine.LinuxPath(driveC, path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errRefused, err)
	}
	return linux, nil
}

func value(env []*runtimeapi.KeyValue, name string) string {
	for _, kv := range env {
		if kv.Key == name {
			return string(kv.Value)
		}
	}
	return ""
}
