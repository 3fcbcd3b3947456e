package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/dra"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pin"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// What the kubelet needs of others. Each interface is one trade; where one type implements several of them, it is
// given to the kubelet as a struct of interfaces (API, Runtime, Volumes), so that a test can replace one trade alone.

// podAPI is the pods that are bound to this node, as internal/kube reads and writes them.
type podAPI interface {
	// Pods calls changed for each pod that is new or different, and gone for each that was removed, from one goroutine.
	// synced reports whether all pods were delivered once.
	Pods(ctx context.Context, changed, gone func(*v1.Pod)) (synced func() bool)
	// PatchPodStatus sends a strategic merge patch of a pod's status.
	PatchPodStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.Pod, error)
	CreatePod(ctx context.Context, p *v1.Pod) (*v1.Pod, error)
	// DeletePod removes a pod without a grace period if it still has that UID.
	DeletePod(ctx context.Context, namespace, name string, uid types.UID) error
}

// nodeAPI is this node's own object, as internal/kube reads and writes it.
type nodeAPI = nodestatus.API

// leaseAPI renews this node's lease until ctx ends; internal/kube implements it.
type leaseAPI interface {
	RunLease(ctx context.Context, seconds int32)
}

// objectAPI reads what pods refer to; internal/kube implements it. An object that does not exist is a NotFound error.
type objectAPI interface {
	// WatchServices starts the watch from which Services answers; synced reports whether it is complete.
	WatchServices(ctx context.Context) (synced func() bool)
	Services(namespace string) []*v1.Service
	RuntimeClass(ctx context.Context, name string) (*nodev1.RuntimeClass, error)
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// eventAPI records events; internal/kube implements it. Its methods do not block.
type eventAPI interface {
	PodEvent(p *v1.Pod, container, eventType, reason, message string)
	AnnotatedPodEvent(p *v1.Pod, annotations map[string]string, eventType, reason, message string)
	NodeEvent(eventType, reason, message string)
}

// API is the Kubernetes API as this node needs it.
type API struct {
	podAPI
	nodeAPI
	leaseAPI
	objectAPI
	eventAPI
}

// NewAPI makes an API of one client that does everything.
func NewAPI(client interface {
	podAPI
	nodeAPI
	leaseAPI
	objectAPI
	eventAPI
}) API {
	return API{client, client, client, client, client}
}

// runtimeService is the runtime as a whole; kubelet/runtime implements it.
type runtimeService interface {
	Version(ctx context.Context) (runtime.Version, error)
	Health(ctx context.Context) (runtime.Health, error)
	SetPodCIDR(ctx context.Context, cidrs string) error
	// UnmountForgotten undoes the mounts of containers that the runtime no longer knows. It returns how many it cannot
	// decide on yet.
	UnmountForgotten(ctx context.Context) (undecided int, err error)
}

// sandboxes are the runtime's sandboxes; kubelet/runtime implements it. Stopping and removing one that is gone
// succeeds.
type sandboxes interface {
	CreateSandbox(ctx context.Context, spec runtime.SandboxSpec) (pod.Sandbox, error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
}

// containers are the runtime's containers; kubelet/runtime implements it. Stopping and removing one that is gone
// succeeds.
type containers interface {
	StartContainer(ctx context.Context, spec runtime.ContainerSpec) (pod.Container, error)
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
	UpdateResources(ctx context.Context, id string, p *v1.Pod, c *v1.Container) error
	MemoryUsage(ctx context.Context, id string) (int64, error)
}

// runtimeReader reads what the runtime has; kubelet/runtime implements it.
type runtimeReader interface {
	// Container reads one container; ok is false when the runtime does not know it.
	Container(ctx context.Context, id string) (c pod.Container, ok bool, err error)
	Snapshot(ctx context.Context, uid string) (map[string]*pod.Runtime, error)
	CheckAll(ctx context.Context, known func(uid string) *pod.Runtime,
		found func(uid string, p *pod.Runtime, err error)) ([]string, error)
	Events(ctx context.Context, subscribed func(), deliver func(runtime.Event)) error
}

// execer runs a command in a container; kubelet/runtime implements it.
type execer interface {
	// Exec returns the exit code and the combined output. timeout 0 is none.
	Exec(ctx context.Context, id string, cmd []string, timeout time.Duration) (exitCode int, output []byte, err error)
}

// Runtime is the container runtime.
type Runtime struct {
	runtimeService
	sandboxes
	containers
	runtimeReader
	execer
}

// NewRuntime makes a Runtime of one client that does everything.
func NewRuntime(client interface {
	runtimeService
	sandboxes
	containers
	runtimeReader
	execer
}) Runtime {
	return Runtime{client, client, client, client, client}
}

// images makes images present; kubelet/image implements it.
type images interface {
	// Ensure returns once the image is present, or an *image.Error.
	Ensure(ctx context.Context, r image.Request) (image.Image, error)
	// Forget drops the back-offs of a pod that has ended.
	Forget(podUID string)
	// Explain adds to an error of a container's start what is known of images; most errors stay as they are.
	Explain(err error) error
}

// podVolumes are the volumes of one pod; kubelet/volume implements it.
type podVolumes interface {
	Prepare(ctx context.Context, p *v1.Pod, facts volume.Facts) error
	Observe(p *v1.Pod)
	Mounts(p *v1.Pod, c *v1.Container, known func(string) (string, bool)) (mounts []volume.Mount, release func() error,
		err error)
	// ReadFile reads a file of an emptyDir of the pod; fs.ErrNotExist if there is none.
	ReadFile(p *v1.Pod, volume, path string) (string, error)
	Devices(p *v1.Pod, c *v1.Container) ([]volume.Device, error)
	EtcHosts(p *v1.Pod, c *v1.Container, h volume.Hosts) (*volume.Mount, error)
	Teardown(ctx context.Context, uid types.UID) error
}

// volumeGroups are the groups of pods' volumes; kubelet/volume implements it.
type volumeGroups interface {
	// Groups are those that the containers of a pod have beside the spec's. Its volumes must be prepared.
	Groups(p *v1.Pod) []int64
}

// podFolders are the folders of all pods, also of those that only an earlier kubelet knew; kubelet/volume implements
// it.
type podFolders interface {
	OnDisk() ([]types.UID, error)
	Remove(ctx context.Context, uid types.UID) error
	// Sweep gives up volumes of the node that no pod uses. All pods must be known.
	Sweep(ctx context.Context)
}

// nodeVolumes are the volumes that are attached to the node; kubelet/volume implements it.
type nodeVolumes interface {
	ObserveNode(n *v1.Node)
	VolumesInUse() []v1.UniqueVolumeName
}

// Volumes are the volumes and folders of pods.
type Volumes struct {
	podVolumes
	volumeGroups
	podFolders
	nodeVolumes
}

// NewVolumes makes Volumes of one manager that does everything.
func NewVolumes(manager interface {
	podVolumes
	volumeGroups
	podFolders
	nodeVolumes
}) Volumes {
	return Volumes{manager, manager, manager, manager}
}

// cgroups are the cgroups of pods; kubelet/cgroup implements it. Removing one that is gone succeeds.
type cgroups interface {
	// Begin is called once the runtime answers, before all others. An error ends the kubelet.
	Begin(ctx context.Context) error
	// Path returns the cgroup in which the runtime puts the pod's containers; "" leaves that to the runtime.
	Path(p *v1.Pod) string
	// Ensure makes the pod's cgroup with the limits of its spec.
	Ensure(p *v1.Pod) error
	// Resize applies the limits of the pod's spec to its cgroup and calls change for the containers in it, in the
	// right order.
	Resize(p *v1.Pod, change func() error) error
	RemovePod(uid types.UID) error
	RemoveContainer(uid types.UID, id string) error
	// Share limits what all pods together may have, and gives their classes their shares; nil pods are not known yet.
	Share(pods []*v1.Pod) error
}

// devices are the devices of device plugins; kubelet/device implements it.
type devices interface {
	// Run serves plugins until ctx ends.
	Run(ctx context.Context) error
	Release(uid types.UID)
	// Raised returns what a pod that has devices can have of the node, of which allocatable is what any pod can have.
	Raised(uid types.UID, allocatable v1.ResourceList) v1.ResourceList
	// Prepare returns what a container that is about to start gets because of its devices.
	Prepare(ctx context.Context, p *v1.Pod, c *v1.Container) (device.Container, error)
	Amounts() device.Amounts
	// Health returns the devices of each container of a pod with their health.
	Health(uid types.UID) map[string][]v1.ResourceStatus
}

// deviceGiver gives devices to pods; kubelet/device implements it.
type deviceGiver interface {
	Begin(p *v1.Pod) *device.Round
}

// pins is who has which processors and memory alone; kubelet/pin implements it.
type pins interface {
	// Active reports whether somebody can get anything alone, CPUs and MemoryNodes whether that is processors, or
	// memory.
	Active() bool
	CPUs() bool
	MemoryNodes() bool
	Begin(p *v1.Pod) *pin.Round
	// Release ends what a pod has, and reports whether it had anything.
	Release(uid types.UID) bool
	// Of returns where a container is to run now.
	Of(uid types.UID, container string) pin.Place
}

// claims are the ResourceClaims of pods; kubelet/dra implements it.
type claims interface {
	// Prepare makes the claims of a pod ready before its containers are made. Unprepare undoes that after the pod has
	// ended; it succeeds for a pod that has none.
	Prepare(ctx context.Context, p *v1.Pod) error
	Unprepare(ctx context.Context, uid types.UID) error
	// CDI returns the names of the devices that a container has because of claims.
	CDI(p *v1.Pod, c *v1.Container) ([]string, error)
	// Health returns the devices of each container of a pod with their health.
	Health(p *v1.Pod) map[string][]v1.ResourceStatus
	// Held returns the claims of a container with their devices.
	Held(p *v1.Pod, c *v1.Container) []dra.Held
}

// deviceList tells who has which device; kubelet/device implements it.
type deviceList interface {
	Held(uid types.UID) map[string][]device.Held
	Healthy() []device.Held
}

// pressureReader reads what the node has left and what its pods use; node/kubelet implements it.
type pressureReader interface {
	Left(ctx context.Context) (evict.Left, error)
	// Usage reads what these pods use. A pod that nobody knows anything of is not in the result.
	Usage(ctx context.Context, pods []pod.View) (map[types.UID]*evict.Usage, error)
	// LocalUsage reads what these pods have on the node's disk, for their own limits. whole is false if not everything
	// could be measured in time: then the pods have at least that much.
	LocalUsage(ctx context.Context, pods []pod.View) (usage map[types.UID]*evict.Usage, whole bool)
}

// Pressure is what the node does when it runs out of something.
type Pressure struct {
	evict.Desired
	// Reader is required if there are thresholds or local limits.
	Reader pressureReader
}

// StaticSource gives pods that do not come from the API; package static has two.
type StaticSource interface {
	// Run calls deliver with all its pods at once, and again when they have changed, until ctx ends.
	Run(ctx context.Context, deliver func([]*v1.Pod), refused func(place string, err error))
}

// Options configure a Kubelet. All fields without a note are required.
type Options struct {
	// Node describes the node object: its name, addresses, machine, labels, what pods can have of it, and pressure
	// thresholds.
	Node    nodestatus.Options
	RootDir string
	// PodLogsDir is where container logs go.
	PodLogsDir string
	// MaxImages bounds the images that the node's status names; negative for no bound.
	MaxImages int
	// UnsafeSysctls are kernel parameters that pods may set beyond the safe ones: names, and beginnings of names with
	// a *.
	UnsafeSysctls []string
	// DNS is what the configuration says about DNS.
	DNS dns.Cluster
	// HostDNS returns the node's own resolver settings, for pods that use them. It is asked at the start of each pod,
	// because servers can come late (DHCP) and change, and must not block for long. Nil: the node has none.
	HostDNS func() dns.Config
	// PodRange is told the node's pod range when it is known, and when it changes; nil for nobody. It must not block.
	PodRange func(cidr string)
	// LeaseSeconds is how long the node counts as alive without a renewal.
	LeaseSeconds int32
	// MaxBackoff bounds the restart back-off; zero means 300 s.
	MaxBackoff time.Duration

	// API is the cluster; Standalone says that there is none, and that only Static pods run (API is then kube.Offline).
	API        API
	Standalone bool
	// Static are the sources of pods beside the API; may be empty.
	Static  []StaticSource
	Runtime Runtime
	Images  images
	Volumes Volumes
	// Cgroups are the pods' cgroups; nil on a system without.
	Cgroups cgroups
	// Pressure says when pods end because the node runs out of something; the zero Pressure watches nothing.
	Pressure Pressure
	// ImageGC removes unused images; nil removes none. Its Event is set by Run.
	ImageGC *image.GC
	Windows bool
	// DeviceDir is the folder of the sockets of device plugins; empty for a node that takes none.
	DeviceDir string
	// Placing is how pods get devices, processors and memory; the zero value gives devices only.
	Placing Placing
	// Meter counts; nil counts nothing.
	Meter *meter.Meter
	// Facts records what is learned about pods; nil records nothing.
	Facts *factlog.Log
	// Burst is called with true when many pods are set up at once, and with false when that is over; nil for nobody.
	// It must not block for long.
	Burst func(bool)
}
