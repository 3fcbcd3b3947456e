package runtime

import (
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/userns"
)

// DNS is the resolver configuration of a pod.
type DNS struct{ Servers, Searches, Options []string }

// SandboxSpec is what a sandbox is created from.
type SandboxSpec struct {
	Pod          *v1.Pod
	Attempt      uint32
	Hostname     string
	DNS          *DNS
	CgroupParent string
	Handler      string
	// IDs are the user and group ids of the node that the pod has as its own, from 0 up; nil leaves it in the node's
	// user namespace.
	IDs *userns.Range
	// Groups are those of the pod's volumes, which the containers have beside the spec's.
	Groups []int64
}

// PodLogDir returns the folder of a pod's logs below root.
func PodLogDir(root string, p *v1.Pod) string {
	return filepath.Join(root, strings.Join([]string{p.Namespace, p.Name, string(p.UID)}, "_"))
}

// sandboxConfig returns the CRI configuration of a sandbox. An error means that no runtime can run the pod as it is
// specified.
func (o Options) sandboxConfig(s SandboxSpec) (*cri.PodSandboxConfig, error) {
	p := s.Pod
	cfg := &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: string(p.UID),
			Attempt: s.Attempt},
		Hostname:     s.Hostname,
		LogDirectory: PodLogDir(o.PodLogsDir, p),
		Labels:       map[string]string{},
		Annotations:  map[string]string{},
	}

	for k, v := range p.Labels {
		cfg.Labels[k] = v
	}
	// Our labels win over those of the pod.
	cfg.Labels[labelPodName], cfg.Labels[labelPodNamespace], cfg.Labels[labelPodUID] = p.Name, p.Namespace,
		string(p.UID)
	for k, v := range p.Annotations {
		cfg.Annotations[k] = v
	}

	if s.DNS != nil {
		cfg.DnsConfig = &cri.DNSConfig{Servers: s.DNS.Servers, Searches: s.DNS.Searches, Options: s.DNS.Options}
	}

	cfg.PortMappings = portMappings(p)
	cfg.Linux = &cri.LinuxPodSandboxConfig{CgroupParent: s.CgroupParent, SecurityContext: o.sandboxSecurity(s)}
	if !o.Windows {
		cfg.Linux.Resources, cfg.Linux.Overhead = o.sandboxResources(p)
	}
	// Sysctls may be written with slashes; the runtime takes dots.
	if sc := p.Spec.SecurityContext; sc != nil && len(sc.Sysctls) > 0 {
		cfg.Linux.Sysctls = map[string]string{}
		for _, x := range sc.Sysctls {
			cfg.Linux.Sysctls[strings.ReplaceAll(x.Name, "/", ".")] = x.Value
		}
	}

	if o.Windows {
		sec, err := windowsSandboxSecurity(p)
		if err != nil {
			return nil, err
		}
		cfg.Windows = &cri.WindowsPodSandboxConfig{SecurityContext: sec}
	}
	return cfg, nil
}

// portMappings returns the ports of all containers that run as long as the pod does.
func portMappings(p *v1.Pod) (out []*cri.PortMapping) {
	add := func(c *v1.Container) {
		for _, port := range c.Ports {
			out = append(out, &cri.PortMapping{HostIp: port.HostIP, HostPort: port.HostPort,
				ContainerPort: port.ContainerPort, Protocol: protocol(port.Protocol)})
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil &&
			*c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return out
}

// sandboxResources returns the resources of all containers of a pod together, and the overhead of its runtime. A
// runtime that puts a pod into a virtual machine needs them for its size.
func (o Options) sandboxResources(p *v1.Pod) (of, overhead *cri.LinuxContainerResources) {
	without := resources.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := resources.PodRequests(p, without), resources.PodLimits(p, without)
	return o.linuxAmounts(requests.Cpu(), limits.Cpu(), limits.Memory()),
		o.linuxAmounts(p.Spec.Overhead.Cpu(), p.Spec.Overhead.Cpu(), p.Spec.Overhead.Memory())
}

// linuxAmounts are shares, quota and memory limit. Without a request the limit of the processor
// counts as one.
func (o Options) linuxAmounts(request, limit, memory *resource.Quantity) *cri.LinuxContainerResources {
	if request.IsZero() && !limit.IsZero() {
		request = limit
	}
	out := &cri.LinuxContainerResources{CpuShares: Shares(request.MilliValue()), MemoryLimitInBytes: memory.Value()}
	if o.CFSQuota {
		out.CpuPeriod = cfsPeriod
		if o.CFSPeriod > 0 {
			out.CpuPeriod = o.CFSPeriod.Microseconds()
		}
		out.CpuQuota = Quota(limit.MilliValue(), out.CpuPeriod)
	}
	return out
}

// protocol is TCP unless the pod names another one.
func protocol(p v1.Protocol) cri.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return cri.Protocol_UDP
	case v1.ProtocolSCTP:
		return cri.Protocol_SCTP
	}
	return cri.Protocol_TCP
}

// namespaces returns which namespaces the pod shares with the node, and which its containers share. Sandbox and
// containers must be given the same options. By default each container has a process namespace of its own.
func (o Options) namespaces(p *v1.Pod, ids *userns.Range) *cri.NamespaceOption {
	mode := func(host bool) cri.NamespaceMode {
		if host {
			return cri.NamespaceMode_NODE
		}
		return cri.NamespaceMode_POD
	}
	out := &cri.NamespaceOption{Network: mode(p.Spec.HostNetwork), Ipc: mode(p.Spec.HostIPC),
		Pid: cri.NamespaceMode_CONTAINER}
	switch {
	case p.Spec.HostPID:
		out.Pid = cri.NamespaceMode_NODE
	case p.Spec.ShareProcessNamespace != nil && *p.Spec.ShareProcessNamespace:
		out.Pid = cri.NamespaceMode_POD
	}
	if !o.Windows {
		out.UsernsOptions = &cri.UserNamespace{Mode: mode(ids == nil), Uids: idMappings(ids), Gids: idMappings(ids)}
	}
	return out
}

// idMappings are ids of a pod in CRI's form; none for a pod in the node's user namespace.
func idMappings(ids *userns.Range) []*cri.IDMapping {
	if ids == nil {
		return nil
	}
	return []*cri.IDMapping{{HostId: ids.First, Length: ids.Length}}
}

// sandboxSecurity returns the settings that CRI has for Linux only. As with upstream, a Windows runtime gets them too,
// without users and SELinux labels: containerd shows them in the status of the sandbox.
func (o Options) sandboxSecurity(s SandboxSpec) *cri.LinuxSandboxSecurityContext {
	p := s.Pod
	sec := &cri.LinuxSandboxSecurityContext{NamespaceOptions: o.namespaces(p, s.IDs),
		Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if c := list[i].SecurityContext; c != nil && c.Privileged != nil && *c.Privileged {
				sec.Privileged = true // else the runtime refuses such a container
			}
		}
	}

	sc := p.Spec.SecurityContext
	if sc == nil {
		return sec
	}
	sec.SupplementalGroupsPolicy = groupsPolicy(sc)
	if o.Windows {
		sec.SupplementalGroups = slices.Concat(s.Groups, sc.SupplementalGroups)
		return sec
	}
	if sc.RunAsUser != nil {
		sec.RunAsUser = &cri.Int64Value{Value: *sc.RunAsUser}
	}
	if sc.RunAsGroup != nil && sc.RunAsUser != nil { // runtimes refuse a group without a user
		sec.RunAsGroup = &cri.Int64Value{Value: *sc.RunAsGroup}
	}
	sec.SupplementalGroups = s.groups()
	sec.SelinuxOptions = seLinux(sc.SELinuxOptions)
	return sec
}

// groupsPolicy says whether the groups that the image gives the user are added (Merge, as always unless the pod says
// otherwise) or not (Strict).
func groupsPolicy(sc *v1.PodSecurityContext) cri.SupplementalGroupsPolicy {
	if sc != nil && sc.SupplementalGroupsPolicy != nil &&
		*sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict {
		return cri.SupplementalGroupsPolicy_Strict
	}
	return cri.SupplementalGroupsPolicy_Merge
}

// groups are those of the pod's spec and of its volumes.
func (s SandboxSpec) groups() []int64 {
	sc := s.Pod.Spec.SecurityContext
	if sc == nil {
		return s.Groups
	}
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	return slices.Concat(out, sc.SupplementalGroups, s.Groups)
}

// windowsSandboxSecurity returns the pod's user and credential, and whether all its containers are HostProcess
// containers.
func windowsSandboxSecurity(p *v1.Pod) (*cri.WindowsSandboxSecurityContext, error) {
	hostProcess, err := desired.HostProcessPod(p)
	if err != nil {
		return nil, err
	}
	sec := &cri.WindowsSandboxSecurityContext{HostProcess: hostProcess}
	if sc := p.Spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		fillWindows(sc.WindowsOptions, &sec.RunAsUsername, &sec.CredentialSpec)
	}
	return sec, nil
}

// fillWindows sets what the options have; later calls win over earlier ones.
func fillWindows(o *v1.WindowsSecurityContextOptions, user, credential *string) {
	if o.RunAsUserName != nil {
		*user = *o.RunAsUserName
	}
	if o.GMSACredentialSpec != nil {
		*credential = *o.GMSACredentialSpec
	}
}

// containerKey returns the hash of a container's spec. A container with another hash must be replaced.
func containerKey(c *v1.Container) string { return desired.Hash(c) }
