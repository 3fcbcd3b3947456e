package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/dns"
	"porthole.dev/porthole/kubelet/env"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
)

// tools are what the actions of all pods are carried out with.
type tools struct {
	runtime Runtime
	images  images
	volumes podVolumes
	groups  volumeGroups
	cgroups cgroups
	objects objectAPI
	events  eventAPI
	devices devices
	claims  claims
	pins    pins
	placed  Placing
	// recursive returns the runtime's handlers that can make mounts below a read-only mount read-only.
	recursive func() []string
	// userNamespaces returns why a handler of the runtime cannot give a pod a user namespace.
	userNamespaces func(handler string) error
	meter          *meter.Meter

	nodeName string
	nodeIPs  func() []string
	dns      dns.Cluster
	hostDNS  func() dns.Config
	windows  bool

	rootDir string // the kubelet's folder
	folders *folders
	// shared is called when a pod has got its cgroup: the share of its class changes.
	shared func()
	// allocatable is what pods can have of the node.
	allocatable func() v1.ResourceList
}

func newTools(o *Options, f *folders, allocatable func() v1.ResourceList) *tools {
	return &tools{runtime: o.Runtime, images: o.Images, volumes: o.Volumes, groups: o.Volumes, objects: o.API,
		events: o.API, meter: o.Meter,
		nodeName: o.Node.Name, nodeIPs: o.Node.IPs, dns: o.DNS, hostDNS: o.HostDNS, windows: o.Windows,
		rootDir: o.RootDir, cgroups: o.Cgroups,
		folders: f, allocatable: allocatable}
}

// effects carries out the actions of one pod. It knows nothing of the pod's state: what an action needs comes with its
// job, and what came of it goes back as facts. It is safe for concurrent use.
type effects struct {
	*tools
	uid types.UID
	// sent are the events that are sent once, pulled is set once an image was pulled, for the figures.
	sent   *onceSet
	pulled atomic.Bool
}

// job is an action with what it needs to know of the pod's state. Which fields are set depends on the kind of the
// action.
type job struct {
	pod.Action
	pod     *v1.Pod
	runtime *pod.Runtime
	// podIP is the address of the pod for its hooks.
	podIP string
	// user is that of the container's image, imageVolumes the references of images that are volumes, by the volume's
	// name.
	user         pod.ImageUser
	imageVolumes map[string]string
	// preStop is the hook to run before a container is stopped; nil if it has none.
	preStop *preStopRun
}

// preStopRun is the preStop hook of one container instance. It runs once, however often the container is told to stop,
// and ends early when the container does.
type preStopRun struct {
	once      sync.Once
	done      chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc
	container *v1.Container
	podIP     string
	tasks     *group
	until     time.Time // when the grace period with which it was started is over
}

// dropped is the outcome of an action for which there was nothing to do.
func dropped(j job) []pod.Fact { return []pod.Fact{pod.ActionDropped{Key: j.Key}} }

func (e *effects) podDir() string { return filepath.Join(e.rootDir, "pods", string(e.uid)) }

// event records an event about a pod; without a pod it does nothing.
func (e *effects) event(p *v1.Pod, container, kind, reason, message string) {
	if p != nil {
		e.events.PodEvent(p, container, kind, reason, message)
	}
}

// rereadTimeout bounds reread.
const rereadTimeout = 10 * time.Second

// reread asks the runtime what it has of the pod, after a call that failed but may have been carried out in part: the
// name of a half-made object would make the next attempt fail. It returns no fact if the runtime does not answer.
func (e *effects) reread(ctx context.Context) []pod.Fact {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rereadTimeout)
	defer cancel()
	found, err := e.runtime.Snapshot(ctx, string(e.uid))
	if err != nil {
		return nil
	}
	return []pod.Fact{pod.Observed{Runtime: found[string(e.uid)]}}
}

func notFound(kind, namespace, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q not found: %w", kind, name, env.ErrNotFound)
	}
	return fmt.Errorf("reading %s %s/%s: %w", kind, namespace, name, err)
}

// onceSet remembers what was done once. It is safe for concurrent use.
type onceSet struct {
	mu   sync.Mutex
	done map[string]bool
}

// first reports whether key is asked about for the first time.
func (o *onceSet) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.done[key]
	if o.done == nil {
		o.done = map[string]bool{}
	}
	o.done[key] = true
	return !seen
}
