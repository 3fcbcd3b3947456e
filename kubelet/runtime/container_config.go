package runtime

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/userns"
)

// Mount is one path of the node seen in a container.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
	// RecursiveReadOnly makes mounts below the mount point read-only too.
	RecursiveReadOnly bool
	Propagation       v1.MountPropagationMode
	// Image, if set, is an image that is mounted instead of HostPath, by the runtime's name; ImageName is its name in
	// the pod's spec, and ImageSubPath the folder in it that is mounted.
	Image, ImageName, ImageSubPath string
}

// Device is a device of the node in a container. Permissions are those of the kernel: r, w and m (mknod).
type Device struct{ HostPath, ContainerPath, Permissions string }

// KeyValue is one environment variable.
type KeyValue struct{ Name, Value string }

// ContainerSpec is what a container is created from.
type ContainerSpec struct {
	Sandbox   SandboxSpec
	SandboxID string
	Container *v1.Container
	Attempt   uint32
	Reset     *time.Time // see observed.Container
	// ImageRef is the runtime's name of the image, and ImageUser the user that the image names.
	ImageRef  string
	ImageUser ImageUser
	Command   []string
	Args      []string
	Env       []KeyValue
	Mounts    []Mount
	Devices   []Device
	// CPUs and Mems are the processors on which the container may run, and the NUMA nodes from which it has memory, in
	// the kernel's form; empty for those of the cgroup above.
	CPUs, Mems string
	// Alone says that nobody else uses these processors: then there is no CPU quota.
	Alone bool
	// CDI are qualified names of devices that the runtime looks up.
	CDI []string
	// Annotations are given to the container beside those that the kubelet keeps there.
	Annotations map[string]string
	// TargetID makes an ephemeral container share the processes of that container.
	TargetID string
	// Created, if set, is called between the creation and the start of the container.
	Created func(id string)
	// Release, if set, frees what was held open for the mounts. The creator of the spec calls it after the start. An
	// error says that the container may have got something else than its mounts.
	Release func() error
}

// ImageUser is the user that an image names: a number, or a name.
type ImageUser struct {
	UID  *int64
	Name string
}

// containerConfig translates a container into CRI's form. It returns an error if the container must not start: it has
// to run as a user other than root, and the user that it would get is root or not known.
func (o Options) containerConfig(s ContainerSpec) (*cri.ContainerConfig, error) {
	c, p := s.Container, s.Sandbox.Pod
	if err := checkNonRoot(p, c, s.ImageUser, o.Windows); err != nil {
		return nil, err
	}

	cfg := &cri.ContainerConfig{
		Metadata:   &cri.ContainerMetadata{Name: c.Name, Attempt: s.Attempt},
		Image:      &cri.ImageSpec{Image: s.ImageRef, UserSpecifiedImage: c.Image},
		Command:    s.Command,
		Args:       s.Args,
		WorkingDir: c.WorkingDir,
		LogPath:    filepath.Join(c.Name, fmt.Sprintf("%d.log", s.Attempt)),
		Stdin:      c.Stdin, StdinOnce: c.StdinOnce, Tty: c.TTY,
		Labels: map[string]string{labelPodName: p.Name, labelPodNamespace: p.Namespace, labelPodUID: string(p.UID),
			labelContainerName: c.Name},
		Annotations: containerAnnotations(p, c, s.Attempt),
	}

	// The environment is complete: services and sources have been looked up before.
	for _, e := range s.Env {
		cfg.Envs = append(cfg.Envs, &cri.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}

	for _, m := range s.Mounts {
		cfg.Mounts = append(cfg.Mounts, o.mount(m, s.Sandbox.IDs))
	}

	for _, d := range s.Devices {
		cfg.Devices = append(cfg.Devices,
			&cri.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
	}
	for _, name := range s.CDI {
		cfg.CDIDevices = append(cfg.CDIDevices, &cri.CDIDevice{Name: name})
	}
	if s.Reset != nil {
		cfg.Annotations[annReset] = s.Reset.UTC().Format(time.RFC3339Nano)
	}
	// Annotations of plugins do not replace ours.
	for name, value := range s.Annotations {
		if _, ours := cfg.Annotations[name]; !ours {
			cfg.Annotations[name] = value
		}
	}

	// On Windows paths of the container are those of its system, and nothing of Linux applies.
	if o.Windows {
		cfg.WorkingDir = o.containerPath(cfg.WorkingDir)
		cfg.Windows = &cri.WindowsContainerConfig{Resources: windowsResources(c, o.CPUs),
			SecurityContext: windowsSecurity(p, c, s.ImageUser)}
		return cfg, nil
	}
	res := o.linuxResources(p, c)
	res.CpusetCpus, res.CpusetMems = s.CPUs, s.Mems
	// A container that has processors for itself is not slowed down by a quota.
	if s.Alone && res.CpuQuota > 0 {
		res.CpuQuota = -1
	}
	cfg.Linux = &cri.LinuxContainerConfig{Resources: res, SecurityContext: o.linuxSecurity(p, c, s)}
	return cfg, nil
}

// mount translates one mount. The mappings are nil without a user namespace.
func (o Options) mount(m Mount, ids *userns.Range) *cri.Mount {
	out := &cri.Mount{HostPath: m.HostPath, ContainerPath: o.containerPath(m.ContainerPath), Readonly: m.ReadOnly,
		RecursiveReadOnly: m.RecursiveReadOnly, Propagation: propagation(m.Propagation), ImageSubPath: m.ImageSubPath,
		UidMappings: idMappings(ids), GidMappings: idMappings(ids)}
	if m.Image != "" {
		out.Image = &cri.ImageSpec{Image: m.Image, UserSpecifiedImage: m.ImageName}
	}
	return out
}

// containerPath gives a path without a drive the drive C: on Windows.
func (o Options) containerPath(p string) string {
	if !o.Windows || p == "" {
		return p
	}
	p = strings.ReplaceAll(p, "/", `\`)
	if strings.HasPrefix(p, `\`) && !strings.HasPrefix(p, `\\`) {
		return "C:" + p
	}
	return p
}

// containerAnnotations returns what is kept with the container for a later kubelet, which may no longer have the pod's
// spec when it stops the container. The names are upstream's, so that a node can change between the two kubelets;
// annResources and annPodLimits are our own. Values that are not set have no annotation.
func containerAnnotations(p *v1.Pod, c *v1.Container, attempt uint32) map[string]string {
	a := map[string]string{
		annHash:              containerKey(c),
		annRestartCount:      strconv.Itoa(int(attempt)),
		annTerminationPath:   c.TerminationMessagePath,
		annTerminationPolicy: string(c.TerminationMessagePolicy),
	}
	if text, err := json.Marshal(c.Resources); err == nil {
		a[annResources] = string(text)
	}
	// The limits of the whole pod are kept apart from the container's.
	if limits := desired.PodLimits(p); len(limits) > 0 {
		if text, err := json.Marshal(limits); err == nil {
			a[annPodLimits] = string(text)
		}
	}

	if p.DeletionGracePeriodSeconds != nil {
		a[annDeletionGracePeriod] = strconv.FormatInt(*p.DeletionGracePeriodSeconds, 10)
	}
	if p.Spec.TerminationGracePeriodSeconds != nil {
		a[annTerminationGracePeriod] = strconv.FormatInt(*p.Spec.TerminationGracePeriodSeconds, 10)
	}

	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if text, err := json.Marshal(c.Lifecycle.PreStop); err == nil {
			a[annPreStop] = string(text)
		}
	}
	if len(c.Ports) > 0 {
		if text, err := json.Marshal(c.Ports); err == nil {
			a[annPorts] = string(text)
		}
	}
	return a
}

// propagation is private unless the container asks for another one.
func propagation(m v1.MountPropagationMode) cri.MountPropagation {
	switch m {
	case v1.MountPropagationHostToContainer:
		return cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case v1.MountPropagationBidirectional:
		return cri.MountPropagation_PROPAGATION_BIDIRECTIONAL
	}
	return cri.MountPropagation_PROPAGATION_PRIVATE
}
