package nodestatus

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/runtime"
)

// Options describe the node. Fields without a note are required.
type Options struct {
	Name string
	// IPs returns the node's addresses as they are now, the main one first. It must not block, and the caller must not
	// change the list.
	IPs func() []string
	// Port is where the kubelet's HTTPS server listens.
	Port int32
	// Version is the kubelet's version as the node reports it.
	Version string
	Host    platform.Host

	// Labels and Taints are given to the node when it registers; both may be empty.
	Labels map[string]string
	Taints []v1.Taint
	// ProviderID is the cloud's name for the node; may be empty.
	ProviderID string
	// NoRegister leaves it to others to create the node object.
	NoRegister bool
	// ExternalCloud means that a cloud controller sets the node's addresses. IPsGiven means that it is to use IPs,
	// because the user chose them.
	ExternalCloud, IPsGiven bool

	// DeclaredFeatures are features that the node has and others place pods by, in order.
	DeclaredFeatures []string

	// MaxPods bounds the pods of the node. PodsPerCore, times the number of CPUs, bounds them further; 0 is no such
	// bound.
	MaxPods, PodsPerCore int64
	// Reserved is subtracted from the node's capacity: system, kubelet, and eviction thresholds. May be empty.
	Reserved v1.ResourceList

	// StatusPeriod is how often the status is worked out, ReportPeriod how often it is sent if nothing has changed.
	StatusPeriod, ReportPeriod time.Duration
	// NetworkAwaited returns why pods must wait although the runtime calls its network ready: the pod network of this
	// boot is not made yet. It returns "" if they need not, and must not block. nil: they never wait. Call ReportSoon
	// when it has become "".
	NetworkAwaited func() string
	// StorageAwaited returns why volumes of storage drivers cannot be placed on the node yet, "" if they can; the node
	// is not ready before. It must not block. nil: they always can. Call ReportSoon when it has become "".
	StorageAwaited func() string
	// Changed asks for a report at once, like ReportSoon, for those who were made before the Node; nil: nobody was.
	Changed wakeup.Signal
}

// Links are what a Node needs from the rest of the kubelet. All but those that may be nil are required.
type Links struct {
	API API
	// Event records an event about the node.
	Event func(eventType, reason, message string)
	// Runtime returns the runtime's version and its latest known health. It must not block.
	Runtime func() (runtime.Version, runtime.Health)
	// ShuttingDown reports whether the machine is about to shut down; nil: never.
	ShuttingDown func() bool
	// Devices counts the devices of device plugins; nil: there are none. It must not block.
	Devices func() device.Amounts
	// PodCIDR is called when the node gets a pod range, and when that changes. It must not block.
	PodCIDR func(cidr string)
	// VolumesInUse lists the attached volumes that pods use, sorted; nil: none. Seen is called with each version of
	// the node that the API returns; nil: nobody. Neither may block.
	VolumesInUse func() []v1.UniqueVolumeName
	Seen         func(*v1.Node)
	// Measure is told how the start of the node goes on; nil: nobody.
	Measure Measure
}

// Measure takes the time of the node's start; kubelet/meter implements it. Each may be called more often than once.
type Measure interface {
	// Joining says that the kubelet asks the API for its node, Joined that it has made a new one there, Ready that the
	// API has it as ready.
	Joining()
	Joined()
	Ready()
}

// API is the node object in the Kubernetes API; internal/kube implements it. GetNode returns a NotFound error if the
// node has been deleted.
type API interface {
	GetNode(ctx context.Context) (*v1.Node, error)
	CreateNode(ctx context.Context, n *v1.Node) (*v1.Node, error)
	PatchNode(ctx context.Context, patch []byte) (*v1.Node, error)
	PatchNodeStatus(ctx context.Context, patch []byte) (*v1.Node, error)
	// WatchNode calls changed with each version of the node until ctx ends. It does not block.
	WatchNode(ctx context.Context, changed func(*v1.Node))
}
