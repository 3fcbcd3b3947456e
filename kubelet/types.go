package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/effect"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/nodestatus"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/runtime"
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

// objectAPI reads what pods refer to; internal/kube implements it.
type objectAPI interface {
	// WatchServices starts the watch from which Services answers; synced reports whether it is complete.
	WatchServices(ctx context.Context) (synced func() bool)
	effect.Objects
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

// runtimeReader reads what the runtime has; kubelet/runtime implements it.
type runtimeReader interface {
	CheckAll(ctx context.Context, known func(uid string) *observed.Runtime,
		found func(uid string, p *observed.Runtime, err error)) ([]string, error)
	Events(ctx context.Context, subscribed func(), deliver func(runtime.Event)) error
}

// Runtime is the container runtime.
type Runtime struct {
	runtimeService
	runtimeReader
	effect.Runtime
}

// NewRuntime makes a Runtime of one client that does everything.
func NewRuntime(client interface {
	runtimeService
	runtimeReader
	effect.Sandboxes
	effect.Containers
	effect.Reader
	effect.Execer
}) Runtime {
	return Runtime{client, client,
		effect.Runtime{Sandboxes: client, Containers: client, Reader: client, Execer: client}}
}

// podVolumes are the volumes of one pod; kubelet/volume implements it.
type podVolumes interface {
	effect.Volumes
	Observe(p *v1.Pod)
}

// nodeVolumes are the volumes that are attached to the node; kubelet/volume implements it.
type nodeVolumes interface {
	ObserveNode(n *v1.Node)
	VolumesInUse() []v1.UniqueVolumeName
}

// Volumes are the volumes and folders of pods.
type Volumes struct {
	podVolumes
	effect.VolumeGroups
	effect.PodFolders
	nodeVolumes
}

// NewVolumes makes Volumes of one manager that does everything.
func NewVolumes(manager interface {
	podVolumes
	effect.VolumeGroups
	effect.PodFolders
	nodeVolumes
}) Volumes {
	return Volumes{manager, manager, manager, manager}
}

// cgroups are the cgroups of pods; kubelet/cgroup implements it. Removing one that is gone succeeds.
type cgroups interface {
	// Begin is called once the runtime answers, before all others. An error ends the kubelet.
	Begin(ctx context.Context) error
	effect.Cgroups
	// Share limits what all pods together may have, and gives their classes their shares; nil pods are not known yet.
	Share(pods []*v1.Pod) error
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
	Images  effect.Images
	Volumes Volumes
	// Cgroups are the pods' cgroups; nil on a system without.
	Cgroups cgroups
	// Pressure says when pods end because the node runs out of something; the zero Pressure watches nothing.
	Pressure Pressure
	// ImageGC removes unused images; nil removes none.
	ImageGC *image.GC
	Windows bool
	// Pods are the pods that the node knows, for those who were made before; nil: nobody else asks about them.
	Pods *Pods
	// Allot gives pods devices, processors, memory and claims; nil gives none.
	Allot *allot.Manager
	// Meter counts; nil counts nothing.
	Meter *meter.Meter
	// Facts records what is learned about pods; nil records nothing.
	Facts *factlog.Log
	// Burst is called with true when many pods are set up at once, and with false when that is over; nil for nobody.
	// It must not block for long.
	Burst func(bool)
}
