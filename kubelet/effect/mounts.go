package effect

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/beneath"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// addMounts adds everything that is mounted into a container. The caller must call release once the container was
// started or will not be, even after an error.
func (s *specs) addMounts(
	spec *runtime.ContainerSpec, p *v1.Pod, ips []string, known func(string) (string, bool),
) (release func() error, err error) {
	c := spec.Container
	mounts, release, err := s.o.Volumes.Mounts(p, c, known)
	if err != nil {
		return release, err
	}

	hosts, err := s.hostsFile(p, c, ips)
	if err != nil {
		return release, err
	}
	if hosts != nil {
		mounts = append(mounts, *hosts)
	}

	possible := slices.Contains(s.o.Health().RecursiveReadOnly(), spec.Sandbox.Handler)
	for _, m := range mounts {
		if m.RecursiveReadOnly && !possible {
			return release, fmt.Errorf(
				"volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
		}
		spec.Mounts = append(spec.Mounts,
			runtime.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: m.ReadOnly,
				RecursiveReadOnly: m.RecursiveReadOnly || m.RecursiveIfPossible && possible,
				Propagation:       m.Propagation})
	}

	devices, err := s.o.Volumes.Devices(p, c)
	if err != nil {
		return release, err
	}
	for _, d := range devices {
		allowed := "mrw" // as upstream
		if d.ReadOnly {
			allowed = "r"
		}
		spec.Devices = append(spec.Devices,
			runtime.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: allowed})
	}

	last, err := s.terminationFile(p, c)
	if last != nil {
		spec.Mounts = append(spec.Mounts, *last)
	}
	return release, err
}

// hostsFile makes the hosts file of a pod. With hostNetwork it begins with the node's file, also on Windows, where
// such a pod can have an address of its own: upstream's kubelet does the same (pkg/kubelet/kubelet_pods.go of
// Kubernetes 1.36.3), and the conformance test KubeletManagedEtcHosts asks for it. The containers of a HostProcess pod
// see the node's own file.
func (s *specs) hostsFile(p *v1.Pod, c *v1.Container, ips []string) (*volume.Mount, error) {
	if s.o.Windows && desired.AnyHostProcess(p) {
		return nil, nil
	}

	name, err := dns.NameOf(p, s.o.NodeName, s.o.DNS.Domain)
	if err != nil {
		return nil, err
	}
	h := volume.Hosts{PodIPs: ips, HostName: name.Host, Domain: name.Domain, Aliases: p.Spec.HostAliases,
		HostNetwork: p.Spec.HostNetwork}
	if h.HostNetwork {
		h.Node, _ = os.ReadFile(volume.HostsFile(s.o.Windows))
	}
	return s.o.Volumes.EtcHosts(p, c, h)
}

// terminationFile makes the file in which a container may leave its termination message.
func (s *specs) terminationFile(p *v1.Pod, c *v1.Container) (*runtime.Mount, error) {
	if c.TerminationMessagePath == "" {
		return nil, nil
	}

	at := runtime.MessageFolder(string(p.UID), c.Name)
	var id [4]byte
	_, _ = rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	if err := makeMessage(s.o.RootDir, at, name); err != nil {
		return nil, fmt.Errorf("creating the termination message file of container %s: %w", c.Name, err)
	}
	path := filepath.Join(append([]string{s.o.RootDir}, append(at, name)...)...)
	return &runtime.Mount{HostPath: path, ContainerPath: c.TerminationMessagePath}, nil
}

// makeMessage makes an empty file to which every container may write, in the folder that the elements lead to below
// root. It makes the folder too. It follows no links that lie below root, and takes no file that is there already.
func makeMessage(root string, elements []string, name string) error {
	top, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer top.Close()
	if err := top.MkdirAll(filepath.Join(elements...), 0o750); err != nil {
		return err
	}
	dir, err := beneath.Folder(root, elements...)
	if err != nil {
		return err
	}
	defer dir.Close()

	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	if !platform.IsWindows { // the umask does not matter
		err = f.Chmod(0o666)
	}
	return errors.Join(err, f.Close())
}
