package kubelet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/static"
	"porthole.dev/porthole/kubelet/status"
)

// resync is how long an actor rests when it has nothing to wait for.
const resync = 75 * time.Second

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
	// tasks are the goroutines that a kubelet which ends waits for.
	tasks *group
	// node is what the node contributes to a decision.
	node func() pod.Node
	// finished is called at the end of the actor, when nothing of the pod is left on the node but folders.
	finished func(*actor)
}

// actor owns the state of one pod. Its goroutine (run) takes in facts, decides, and starts actions; each action runs in a
// goroutine of its own and comes back as facts.
type actor struct {
	services
	uid types.UID
	// born is when the node learned of the pod.
	born time.Time

	mu    sync.Mutex
	inbox []pod.Fact
	bell  wakeup.Signal // something is in the inbox, or a pass is due

	// The following fields are used only by the actor's goroutine.

	state     *pod.State
	reconcile func(*pod.State, pod.Node, time.Time) pod.Plan
	record    *factlog.Pod // nil unless facts are recorded
	panics    int          // turns in a row that ended in a panic

	effects  *effects
	cancels  *cancels
	preStops map[string]*preStopRun // by container id
	mirror   types.UID              // mirror of a static pod that got its status last

	inBurst      bool // counted in the burst
	counted, ran bool // counted in the figures

	// Other goroutines read these. The values are never changed, only replaced.
	view atomic.Pointer[pod.View]
	seen atomic.Pointer[pod.Runtime]
}

func newActor(uid types.UID, s services, t *tools) *actor {
	return &actor{services: s, uid: uid, record: s.facts.Pod(uid), born: time.Now(), bell: wakeup.New(), state: pod.NewState(), reconcile: pod.Reconcile,
		effects: &effects{tools: t, uid: uid, sent: &onceSet{}}, cancels: newCancels(), preStops: map[string]*preStopRun{}}
}

// post hands facts to the actor, which takes them in together and in this order. It never blocks.
func (a *actor) post(facts ...pod.Fact) {
	a.mu.Lock()
	a.inbox = append(a.inbox, facts...)
	a.mu.Unlock()
	a.bell.Wake()
}

func (a *actor) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-a.bell:
		case <-timer.C:
		}

		next, done := a.turn(ctx)
		if done {
			return
		}
		timer.Reset(next)
	}
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

// turn takes in what is new and makes a pass over the pod. A panic in it concerns this pod only. It returns how long the actor
// may rest, and whether the pod has finished.
func (a *actor) turn(ctx context.Context) (rest time.Duration, finished bool) {
	defer func() {
		if r := recover(); r != nil {
			rest, finished = a.panicked(ctx, r), false
		}
	}()

	for f := a.next(); f != nil; f = a.next() {
		a.take(f, time.Now())
		a.follow(ctx, f)
	}
	a.seen.Store(a.state.Runtime())

	rest, finished = a.pass(ctx)
	a.panics = 0
	return rest, finished
}

// take changes the state by what was learned at that time, and records it.
func (a *actor) take(f pod.Fact, now time.Time) {
	a.state.Take(f, now)
	a.record.Fact(f, now)
}

// follow does what has to follow at once from a fact that was taken in.
func (a *actor) follow(ctx context.Context, f pod.Fact) {
	switch f := f.(type) {
	case pod.VolumesFailed:
		klog.FromContext(ctx).V(2).Info("Volumes are not ready", "pod", a.uid, "failures", a.state.VolumeFailures(), "cause", f.Message)
	case pod.Resized:
		if err := a.effects.writeNote(a.state.Note()); err != nil { // the next kubelet would do it once more
			klog.FromContext(ctx).Error(err, "A resize cannot be noted", "pod", a.uid)
		}
	}
}

// pass asks the node what the pod needs to know of it, decides, and starts the actions.
func (a *actor) pass(ctx context.Context) (rest time.Duration, finished bool) {
	s := a.state
	if s.Undecided() {
		return resync, false
	}

	began := time.Now()
	defer func() {
		a.meter.Worker(!a.counted, time.Since(began), began.Sub(a.born))
		a.counted = true
	}()

	a.agreeResources(ctx)
	a.askAdmission(ctx)
	a.endPreStops()
	a.watchProbes()

	now := time.Now()
	node := a.node()
	plan := a.reconcile(s, node, now)
	a.record.Plan(node, &plan, now)
	a.assert(ctx, &plan)

	if plan.Stopping && !s.Stopping() {
		a.take(pod.StopBegan{}, now)
		a.probes.Terminating(a.uid)
	}

	a.cancels.cancel(plan.Cancel)
	if plan.Stopped {
		a.admission.Release(a.uid)
	}

	a.publish(&plan)
	a.sendEvents(plan.Events)

	if log := klog.FromContext(ctx).V(4); log.Enabled() && len(plan.Actions) > 0 {
		log.Info("Pod plan", "pod", a.uid, "plan", plan.Dump())
	}

	for _, action := range plan.Actions {
		a.start(ctx, action)
	}

	a.countBurst()

	if plan.Finished {
		a.end()
		return 0, true
	}

	rest = resync
	if !plan.NextWake.IsZero() {
		rest = min(rest, max(time.Until(plan.NextWake), time.Millisecond))
	}
	return rest, false
}

// start runs an action in a goroutine. The action returns facts; one of them says how it ended.
func (a *actor) start(ctx context.Context, action pod.Action) {
	j := a.job(ctx, action)
	a.take(pod.ActionStarted{Action: action}, time.Now())
	ctx, done := a.cancels.begin(ctx, action.Key)

	a.tasks.Go(func() {
		var facts []pod.Fact
		err := guarded(ctx, a.uid, string(action.Kind), func() error { facts = a.effects.run(ctx, j); return nil })
		done()
		if err != nil {
			facts = []pod.Fact{pod.TaskPanicked{Action: action, Message: err.Error()}}
		}
		a.post(facts...)
	})
}

// job is an action with what it needs to know of the pod, for it runs beside the actor.
func (a *actor) job(ctx context.Context, action pod.Action) job {
	s := a.state
	j := job{Action: action, pod: s.Pod(), runtime: s.Runtime(), podIP: a.podIP()}
	switch action.Kind {
	case pod.StartContainer:
		j.user, j.imageVolumes = s.Image(action.Name).User, imageVolumes(s)
	case pod.StopContainer:
		j.preStop = a.preStopOf(ctx, action)
	}
	return j
}

// sendEvents sends the events of a plan that were not sent yet.
func (a *actor) sendEvents(events []pod.Event) {
	p, waiting := a.state.Pod(), false
	if p == nil {
		return
	}

	for _, e := range events {
		waiting = waiting || e.Key == ""
		if e.Key == "" || a.effects.sent.first("plan/"+e.Key+"/"+e.Reason) {
			a.effects.event(p, e.Container, e.Type, e.Reason, e.Message)
		}
	}
	if waiting {
		a.take(pod.EventsSent{}, time.Now())
	}
}

// countBurst counts the pod among those that are set up at the moment, while it is.
func (a *actor) countBurst() {
	switch now := a.state.SettingUp(); {
	case now && !a.inBurst:
		a.burst.enter()
	case !now && a.inBurst:
		a.burst.leave()
	default:
		return
	}
	a.inBurst = !a.inBurst
}

// end gives back what the kubelet keeps about a pod that has finished.
func (a *actor) end() {
	if a.inBurst { // its volumes were being made still
		a.burst.leave()
	}
	a.probes.StopPod(a.uid)
	a.effects.images.Forget(string(a.uid))
	a.record.Close()
	a.finished(a)
}

// podIP returns the main address of the pod as it is now; that of the node if the pod has none.
func (a *actor) podIP() string {
	if b, ok := a.state.Runtime().Sandbox(); ok && len(b.IPs) > 0 {
		return b.IPs[0]
	}
	if len(a.effects.nodeIPs) > 0 {
		return a.effects.nodeIPs[0]
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
