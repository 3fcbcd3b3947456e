package kubelet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/effect"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/status"
)

// services are the parts of the kubelet that all actors share.
type services struct {
	status    *status.Writer
	probes    *probe.Manager
	admission *admission
	burst     *burst
	statics   *static.Set
	meter     *meter.Meter
	knowledge *knowledge
	facts     *factlog.Log // nil unless facts are recorded
	events    eventAPI
	tools     *effect.Options // what the actions of all pods are carried out with
	// tasks are the goroutines that a kubelet which ends waits for.
	tasks *group
	// node is what the node contributes to a decision.
	node func() pod.Node
	// finished is called at the end of the actor, when nothing of the pod is left on the node but folders.
	finished func(*actor)
}

// actor owns the state of one pod. Its goroutine (run) takes in facts, decides, and starts actions; each action runs
// in a goroutine of its own and comes back as facts.
type actor struct {
	services
	uid types.UID
	// born is when the node learned of the pod.
	born time.Time

	mu    sync.Mutex
	inbox []pod.Fact
	wake  wakeup.Signal // something is in the inbox, or a pass is due

	// The following fields are used only by the actor's goroutine.

	state     *pod.State
	reconcile func(*pod.State, pod.Node, time.Time) pod.Plan
	record    *factlog.Pod // nil unless facts are recorded
	panics    int          // turns in a row that ended in a panic

	effects  *effect.Pod
	cancels  *cancels
	preStops map[string]*effect.PreStop // by container id
	mirror   types.UID                  // mirror of a static pod that got its status last

	inBurst      bool // counted in the burst
	counted, ran bool // counted in the figures

	// Other goroutines read these. The values are never changed, only replaced.
	view atomic.Pointer[pod.View]
	seen atomic.Pointer[observed.Runtime]
}

func newActor(uid types.UID, s services) *actor {
	return &actor{
		services: s, uid: uid, record: s.facts.Pod(uid), born: time.Now(),
		wake:  wakeup.New(),
		state: pod.NewState(), reconcile: pod.Reconcile,
		effects: effect.For(uid, s.tools), cancels: newCancels(),
		preStops: map[string]*effect.PreStop{},
	}
}

// post hands facts to the actor, which takes them in together and in this order. It never blocks.
func (a *actor) post(facts ...pod.Fact) {
	a.mu.Lock()
	a.inbox = append(a.inbox, facts...)
	a.mu.Unlock()
	a.wake.Wake()
}

// next returns the oldest fact of the inbox, or nil. A fact over which the actor panics is not seen again.
func (a *actor) next() (f pod.Fact) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.inbox) > 0 {
		f, a.inbox = a.inbox[0], a.inbox[1:]
	}
	return f
}

// take changes the state by what was learned at that time, and records it.
func (a *actor) take(f pod.Fact, now time.Time) {
	a.state.Take(f, now)
	a.record.Fact(f, now)
}

// podIP returns the main address of the pod as it is now; that of the node if the pod has none.
func (a *actor) podIP() string {
	if b, ok := a.state.Runtime().Sandbox(); ok && len(b.IPs) > 0 {
		return b.IPs[0]
	}
	if ips := a.tools.NodeIPs(); len(ips) > 0 {
		return ips[0]
	}
	return ""
}

// cancels are the ways to end the actions of a pod early, by their keys. It is safe for concurrent use.
type cancels struct {
	mu    sync.Mutex
	byKey map[string]context.CancelFunc
}

func newCancels() *cancels { return &cancels{byKey: map[string]context.CancelFunc{}} }

// begin returns the context of an action; done must be called at its end, before the outcome is posted.
func (c *cancels) begin(ctx context.Context, key string) (action context.Context, done func()) {
	action, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byKey[key] = cancel

	return action, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byKey, key)
		cancel()
	}
}

// cancel ends actions early. They still come to their own end, and say so.
func (c *cancels) cancel(keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if cancel := c.byKey[key]; cancel != nil {
			cancel()
		}
	}
}
