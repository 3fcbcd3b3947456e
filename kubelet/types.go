package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/volume"
)

// API is the Kubernetes API as this node needs it; internal/kube implements it.
type API interface {
	Pods(ctx context.Context, changed, gone func(*v1.Pod)) (synced func() bool)
	WatchServices(ctx context.Context) (synced func() bool)
	Services(namespace string) []*v1.Service
	WatchNode(ctx context.Context, changed func(*v1.Node))
	PatchPodStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.Pod, error)
	CreatePod(ctx context.Context, p *v1.Pod) (*v1.Pod, error)
	DeletePod(ctx context.Context, namespace, name string, uid types.UID) error
	// RuntimeClass finds a class; one that does not exist is a NotFound error.
	RuntimeClass(ctx context.Context, name string) (*nodev1.RuntimeClass, error)
	GetNode(ctx context.Context) (*v1.Node, error)
	CreateNode(ctx context.Context, n *v1.Node) (*v1.Node, error)
	PatchNode(ctx context.Context, patch []byte) (*v1.Node, error)
	PatchNodeStatus(ctx context.Context, patch []byte) (*v1.Node, error)
	RunLease(ctx context.Context, seconds int32)
	PodEvent(p *v1.Pod, container, eventType, reason, message string)
	NodeEvent(eventType, reason, message string)
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Options configure a Kubelet. All fields without a note are required.
type Options struct {
	NodeName string
	// NodeIPs are the node's addresses, the main one first.
	NodeIPs []string
	RootDir string
	// PodLogsDir is where container logs go.
	PodLogsDir string
	// CgroupRoot is the folder of the cgroup tree below which pods live; "" is the top.
	CgroupRoot string
	// Labels and Taints are given to the node when it registers; both may be empty. ProviderID is the cloud's name for it.
	Labels     map[string]string
	Taints     []v1.Taint
	ProviderID string
	// NoRegister leaves it to others to make the node object.
	NoRegister bool
	// ExternalCloud says that a cloud controller knows the node's addresses better; NodeIPGiven, that it should be told
	// NodeIPs because the user chose them.
	ExternalCloud, NodeIPGiven bool
	// Port is where the HTTPS server listens.
	Port    int32
	MaxPods int64
	// PodsPerCore bounds MaxPods further; 0 for no such bound.
	PodsPerCore int64
	// Reserved is taken off the node's capacity: system, kubelet, and eviction thresholds.
	Reserved v1.ResourceList
	// MaxImages bounds the images that the node's status names; negative for no bound.
	MaxImages int
	// Thresholds say when the node is under pressure, and PressureTransition how long it then says so at least. Usage reads
	// what the machine uses, with the file system of a path; nil measures nothing.
	Thresholds         []Threshold
	PressureTransition time.Duration
	Usage              func(path string) (platform.Usage, error)
	// UnsafeSysctls are kernel parameters that pods may set beyond the safe ones: names, and beginnings of names with a *.
	UnsafeSysctls []string
	DNS           dns.Cluster
	Host          platform.Host
	Version       string
	// LeaseSeconds is how long the node counts as alive without a renewal.
	LeaseSeconds int32
	// StatusPeriod is how often the node's status is computed, ReportPeriod how often it is sent when nothing changed.
	StatusPeriod, ReportPeriod time.Duration
	// MaxBackoff bounds the restart back-off; zero means 300 s.
	MaxBackoff time.Duration

	// API is the cluster; Standalone says that there is none, and that only Static pods run (API is then Offline).
	API        API
	Standalone bool
	// Static are the sources of pods beside the API; may be empty.
	Static  []StaticSource
	Runtime *runtime.Runtime
	Images  *image.Puller
	Volumes *volume.Manager
	// ImageGC removes unused images; nil removes none. Its Event is set by Run.
	ImageGC *image.GC
	Windows bool
	// Meter counts; nil counts nothing.
	Meter *meter.Meter
	// Crowd hears when many pods are set up at once, and when that is over; nil for nobody. It must not block for long.
	Crowd func(bool)
}

// PodView is a pod as others may see it. It never changes.
type PodView struct {
	// Pod has the status that the node last worked out.
	Pod *v1.Pod
	// SandboxID is the newest sandbox; empty when there is none.
	SandboxID string
	// Containers are the newest instances by name.
	Containers map[string]ContainerView
	// Logs are the log files of all instances that the runtime still has, by container id.
	Logs map[string]string
}

// ContainerView is one container of a PodView.
type ContainerView struct {
	ID, LogPath string
	Running     bool
	Attempt     uint32
}

// fact is one thing that an actor learns. It runs in the actor's goroutine.
type fact func(s *pod.State)

var _ = probe.Result{}
