package effect

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// Options are what the actions of all pods are carried out with. All fields without a note are required.
type Options struct {
	Runtime Runtime
	Images  Images
	Volumes Volumes
	Groups  VolumeGroups
	Cgroups Cgroups
	Objects Objects
	Events  events
	Allot   *allot.Manager
	Folders *Folders
	// Health returns what the runtime said of itself last; nil if it has not said anything yet.
	Health func() *runtime.Health
	// Meter counts; nil counts nothing.
	Meter *meter.Meter

	NodeName string
	NodeIPs  func() []string
	// Allocatable returns what pods can have of the node.
	Allocatable func() v1.ResourceList
	// DNS is what the configuration says about DNS, HostDNS the node's own settings; nil: it has none.
	DNS     dns.Cluster
	HostDNS func() dns.Config
	Windows bool
	RootDir string // the kubelet's folder
	// Shared is called when a pod has got its cgroup: the share of its class changes.
	Shared func()
}

// Runtime is the container runtime as actions need it.
type Runtime struct {
	Sandboxes
	Containers
	Reader
	Execer
}

// Sandboxes are the runtime's sandboxes; kubelet/runtime implements it. Stopping and removing one that is gone
// succeeds.
type Sandboxes interface {
	CreateSandbox(ctx context.Context, spec runtime.SandboxSpec) (observed.Sandbox, error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
}

// Containers are the runtime's containers; kubelet/runtime implements it. Stopping and removing one that is gone
// succeeds.
type Containers interface {
	StartContainer(ctx context.Context, spec runtime.ContainerSpec) (observed.Container, error)
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
	UpdateResources(ctx context.Context, id string, p *v1.Pod, c *v1.Container) error
	MemoryUsage(ctx context.Context, id string) (int64, error)
}

// Reader reads what the runtime has of one pod; kubelet/runtime implements it.
type Reader interface {
	// Container reads one container; ok is false when the runtime does not know it.
	Container(ctx context.Context, id string) (c observed.Container, ok bool, err error)
	Snapshot(ctx context.Context, uid string) (map[string]*observed.Runtime, error)
}

// Execer runs a command in a container; kubelet/runtime implements it.
type Execer interface {
	// Exec returns the exit code and the combined output. timeout 0 is none.
	Exec(ctx context.Context, id string, cmd []string, timeout time.Duration) (exitCode int, output []byte, err error)
}

// Images makes images present; kubelet/image implements it.
type Images interface {
	// Ensure returns once the image is present, or an *image.Error.
	Ensure(ctx context.Context, r image.Request) (image.Image, error)
	// Forget drops the back-offs of a pod that has ended.
	Forget(podUID string)
	// Explain adds to an error of a container's start what is known of images; most errors stay as they are.
	Explain(err error) error
}

// Volumes are the volumes of one pod; kubelet/volume implements it.
type Volumes interface {
	Prepare(ctx context.Context, p *v1.Pod, facts volume.Facts) error
	Mounts(p *v1.Pod, c *v1.Container, known func(string) (string, bool)) (mounts []volume.Mount, release func() error,
		err error)
	// ReadFile reads a file of an emptyDir of the pod; fs.ErrNotExist if there is none.
	ReadFile(p *v1.Pod, volume, path string) (string, error)
	Devices(p *v1.Pod, c *v1.Container) ([]volume.Device, error)
	EtcHosts(p *v1.Pod, c *v1.Container, h volume.Hosts) (*volume.Mount, error)
	Teardown(ctx context.Context, uid types.UID) error
}

// VolumeGroups are the groups of pods' volumes; kubelet/volume implements it.
type VolumeGroups interface {
	// Groups are those that the containers of a pod have beside the spec's. Its volumes must be prepared.
	Groups(p *v1.Pod) []int64
}

// Cgroups are the cgroups of pods; kubelet/cgroup implements it. Removing one that is gone succeeds.
type Cgroups interface {
	// Path returns the cgroup in which the runtime puts the pod's containers; "" leaves that to the runtime.
	Path(p *v1.Pod) string
	// Ensure makes the pod's cgroup with the limits of its spec.
	Ensure(p *v1.Pod) error
	// Resize applies the limits of the pod's spec to its cgroup and calls change for the containers in it, in the right
	// order.
	Resize(p *v1.Pod, change func() error) error
	RemovePod(uid types.UID) error
	RemoveContainer(uid types.UID, id string) error
}

// Objects reads what pods refer to; internal/kube implements it. An object that does not exist is a NotFound error.
type Objects interface {
	Services(namespace string) []*v1.Service
	RuntimeClass(ctx context.Context, name string) (*nodev1.RuntimeClass, error)
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// events records events about pods; internal/kube implements it.
type events interface {
	PodEvent(p *v1.Pod, container, eventType, reason, message string)
}
