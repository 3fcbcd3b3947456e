package effect

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// Pod carries out the actions of one pod. It knows nothing of the pod's state: what an action needs comes with its job,
// and what came of it goes back as facts. Make it with For. It is safe for concurrent use.
type Pod struct {
	o     *Options
	uid   types.UID
	specs specs
	// done are the events that are sent once, pulled is set once an image was pulled, for the figures.
	done   onceSet
	pulled atomic.Bool
}

// For returns what carries out the actions of a pod. The options are shared by all pods and must not change.
func For(uid types.UID, o *Options) *Pod {
	e := &Pod{o: o, uid: uid}
	e.specs = specs{o, e.warnOnce}
	return e
}

// Job is an action with what it needs to know of the pod's state. Which fields are set depends on the kind of the
// action.
type Job struct {
	pod.Action
	Pod     *v1.Pod
	Runtime *observed.Runtime
	// PodIP is the address of the pod for its hooks.
	PodIP string
	// User is that of the container's image, ImageVolumes the references of images that are volumes, by the volume's
	// name.
	User         pod.ImageUser
	ImageVolumes map[string]string
	// PreStop is the hook to run before a container is stopped; nil if it has none.
	PreStop *PreStop
}

// Run carries out an action. The first of the facts says how it ended; others are what was seen on the way.
func (e *Pod) Run(ctx context.Context, j Job) []pod.Fact {
	switch j.Kind {
	case pod.PrepareVolumes:
		return e.prepareVolumes(ctx, j)
	case pod.CreateSandbox:
		return e.createSandbox(ctx, j)
	case pod.EnsureImage:
		return e.ensureImage(ctx, j)
	case pod.StartContainer:
		return e.startContainer(ctx, j)
	case pod.RunHook:
		return e.postStart(ctx, j)
	case pod.StopContainer:
		return e.stopContainer(ctx, j)
	case pod.RemoveContainer, pod.RemoveSandbox:
		return e.remove(ctx, j)
	case pod.StopSandbox:
		return e.stopSandbox(ctx, j)
	case pod.ResizePod:
		return e.resizePod(ctx, j)
	case pod.Cleanup:
		return e.cleanUp(ctx, j)
	}

	return dropped(j)
}

// dropped is the outcome of an action for which there was nothing to do.
func dropped(j Job) []pod.Fact { return []pod.Fact{pod.ActionDropped{Key: j.Key}} }

func (e *Pod) podDir() string { return filepath.Join(e.o.RootDir, "pods", string(e.uid)) }

// Event records an event about a pod; without a pod it does nothing.
func (e *Pod) Event(p *v1.Pod, container, kind, reason, message string) {
	if p != nil {
		e.o.Events.PodEvent(p, container, kind, reason, message)
	}
}

// warnOnce sends a warning about a pod, once for each key.
func (e *Pod) warnOnce(p *v1.Pod, key, reason, message string) {
	if e.First(key) {
		e.Event(p, "", v1.EventTypeWarning, reason, message)
	}
}

// First reports whether key is asked about for the first time.
func (e *Pod) First(key string) bool { return e.done.first(key) }

// Pulled reports whether an image was pulled for the pod.
func (e *Pod) Pulled() bool { return e.pulled.Load() }

// Forget drops what was kept about the pod's images. Call it when the pod has ended.
func (e *Pod) Forget() { e.o.Images.Forget(string(e.uid)) }

// rereadTimeout bounds reread.
const rereadTimeout = 10 * time.Second

// reread asks the runtime what it has of the pod, after a call that failed but may have been carried out in part: the
// name of a half-made object would make the next attempt fail. It returns no fact if the runtime does not answer.
func (e *Pod) reread(ctx context.Context) []pod.Fact {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rereadTimeout)
	defer cancel()
	found, err := e.o.Runtime.Snapshot(ctx, string(e.uid))
	if err != nil {
		return nil
	}
	return []pod.Fact{pod.Observed{Runtime: found[string(e.uid)]}}
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
