package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/paths"
)

// Hosts is what the hosts file of a pod is made of.
type Hosts struct {
	PodIPs   []string
	HostName string // short name of the pod
	Domain   string // <subdomain>.<namespace>.svc.<cluster domain>, or empty
	Aliases  []v1.HostAlias
	// HostNetwork uses Node, the text of the node's own hosts file, in place of the pod's addresses.
	HostNetwork bool
	Node        []byte
}

// HostsContent returns the text of a pod's hosts file. Programs recognise it by its first line, which is upstream's.
func HostsContent(h Hosts) []byte {
	var b bytes.Buffer
	if h.HostNetwork {
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(h.Node)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n")
		b.WriteString("127.0.0.1\tlocalhost\n")
		b.WriteString("::1\tlocalhost ip6-localhost ip6-loopback\n")
		b.WriteString("fe00::\tip6-localnet\n")
		b.WriteString("fe00::\tip6-mcastprefix\n")
		b.WriteString("fe00::1\tip6-allnodes\n")
		b.WriteString("fe00::2\tip6-allrouters\n")
		for _, ip := range h.PodIPs {
			if h.Domain != "" {
				fmt.Fprintf(&b, "%s\t%s.%s\t%s\n", ip, h.HostName, h.Domain, h.HostName)
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, h.HostName)
			}
		}
	}

	if len(h.Aliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, a := range h.Aliases {
			fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
		}
	}
	return b.Bytes()
}

// HostsFile returns the path of a system's hosts file, which is the same in its containers.
func HostsFile(windows bool) string {
	if windows {
		return `C:\Windows\System32\drivers\etc\hosts`
	}
	return "/etc/hosts"
}

// EtcHosts writes the hosts file of a pod and returns its mount for the container c. It returns nil if c mounts
// something else there. Call it before each container is created, once the pod has its addresses.
func (m *Manager) EtcHosts(pod *v1.Pod, c *v1.Container, h Hosts) (*Mount, error) {
	at := HostsFile(m.windows)
	for _, vm := range c.VolumeMounts {
		if p, err := paths.CleanContainerPath(vm.MountPath, m.windows); err == nil &&
			(p == at || m.windows && strings.EqualFold(p, at)) {
			return nil, nil
		}
	}
	dir := m.opts.podDir(pod.UID)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making folder of pod: %w", err)
	}
	file := filepath.Join(dir, hostsName)
	want := HostsContent(h)
	if err := writeHosts(file, want); err != nil {
		return nil, fmt.Errorf("writing hosts file of pod: %w", err)
	}
	return &Mount{Name: "k8s-managed-etc-hosts", HostPath: file, ContainerPath: at,
		Propagation: v1.MountPropagationNone}, nil
}

// writeHosts makes the file have the wanted content. It writes in place, because running containers have this very file
// mounted. They may have made it huge, so it reads no more than the wanted content would need.
func writeHosts(file string, want []byte) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|disk.NoFollow, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("it is not a file"))
	}
	have, err := io.ReadAll(io.LimitReader(f, int64(len(want))+1))
	if err == nil && bytes.Equal(have, want) {
		return nil
	}
	if _, err = f.WriteAt(want, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(want))); err != nil || disk.OnWindows {
		return err
	}
	return f.Chmod(0o644)
}
