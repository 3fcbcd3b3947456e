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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/uuid"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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

// create does the work of CreateContainer in the folder f, which the caller removes if it fails. The order matters: the image
// and the command are checked before anything is made, C: is mounted before paths on it are looked up, and what later calls need
// is saved before the Linux container exists.
func (s service) create(ctx context.Context, f folder, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	c := r.GetConfig()
	if err := s.checkHostProcess(ctx, r); err != nil {
		return nil, err
	}
	image, err := s.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: c.GetImage()})
	if err != nil {
		return nil, err
	}
	if image.GetImage() == nil {
		return nil, status.Errorf(codes.NotFound, "image %s is not on this host", c.GetImage().GetImage())
	}
	original, diffs, err := s.windowsImage(ctx, image.Image.Id)
	if err != nil {
		return nil, err
	}
	imageConfig := original.Config
	command, err := commandOf(c, imageConfig)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	lower, err := s.layersOfC(ctx, diffs)
	if err != nil {
		return nil, err
	}
	env := environment(c, imageConfig, s.o)
	if user := userOf(c, imageConfig); user != "" {
		env = append(env, &runtimeapi.KeyValue{Key: "USERNAME", Value: []byte(user)})
	}
	hostname := r.GetSandboxConfig().GetHostname()
	if hostname != "" {
		env = append(env, &runtimeapi.KeyValue{Key: "COMPUTERNAME", Value: []byte(computerName(hostname))})
	}
	system, user := registryAdditions(hostname, r.GetSandboxConfig().GetDnsConfig(), env)
	if domain := domainOf(c.GetWindows().GetSecurityContext().GetCredentialSpec()); domain != "" {
		system += registryKey(domainKey, "CredentialSpecDomain", domain)
	}
	lower = append(lower, filepath.Join(s.o.Template, "drive_c"))
	if err := f.create(s.o.Template, lower, map[string]string{"system.reg": system, "user.reg": user}); err != nil {
		return nil, err
	}
	if err := f.mount(); err != nil {
		return nil, err
	}
	if c.GetWindows().GetSecurityContext().GetHostProcess() {
		if err := f.showImage(); err != nil {
			return nil, err
		}
		env = append(env, &runtimeapi.KeyValue{Key: "CONTAINER_SANDBOX_MOUNT_POINT", Value: []byte(imageOfHostProcess)})
	}

	mounts, err := s.mounts(f, c.GetMounts())
	if err != nil {
		return nil, err
	}
	dir := workingDir(c, imageConfig)
	linuxDir, err := s.inContainer(f, dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(f.driveC(), strings.TrimPrefix(linuxDir, driveInContainer)), 0o755); err != nil {
		return nil, fmt.Errorf("making the working folder: %w", err)
	}
	sandbox, err := linuxSandbox(r.GetSandboxConfig(), s.o)
	if err != nil {
		return nil, err
	}
	if err := f.save(record{Mounts: c.GetMounts(), Resources: c.GetWindows().GetResources(), Command: command, Dir: dir, Path: value(env, "WINEPATH"), Log: c.GetLogPath(),
		Name: c.GetMetadata().GetName(), User: c.GetWindows().GetSecurityContext().GetRunAsUsername(),
		Mismatch: !c.GetWindows().GetSecurityContext().GetHostProcess() && !s.o.matcher().Match(original.Platform)}); err != nil {
		return nil, err
	}
	return s.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: r.GetPodSandboxId(), SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: c.Metadata, Image: c.Image, LogPath: strings.ReplaceAll(c.LogPath, `\`, "/"),
			Labels: c.Labels, Annotations: merge(c.Annotations, map[string]string{keyAnnotation: filepath.Base(f.dir)}),
			Stdin: c.Stdin, StdinOnce: c.StdinOnce, Tty: c.Tty,
			Command: []string{s.o.Wine}, Args: launched(command, findProgram(f, command, dir, value(env, "WINEPATH"))), WorkingDir: linuxDir, Envs: env, Mounts: mounts,
			Linux: &runtimeapi.LinuxContainerConfig{
				Resources: linuxResources(c.GetWindows().GetResources(), s.o.CPUs),
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
					NamespaceOptions: sandbox.Linux.SecurityContext.NamespaceOptions, Seccomp: sandbox.Linux.SecurityContext.Seccomp,
				},
			},
		},
	})
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
		if target == driveInContainer {
			return nil, fmt.Errorf("%w: mount of %s: C:\\ itself cannot be mounted over", errRefused, m.GetHostPath())
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: target, HostPath: source, Readonly: m.GetReadonly()})
		if strings.EqualFold(target, driveInContainer+"/"+hostsFile) {
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
	return driveInContainer + strings.TrimPrefix(linux, f.driveC()), nil
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
