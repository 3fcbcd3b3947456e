package kubelet

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/effect"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// resync is how long an actor rests when it has nothing to wait for.
const resync = 75 * time.Second

// run is the loop of the actor. It ends with ctx, or when the pod has finished.
func (a *actor) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
		}

		next, done := a.turn(ctx)
		if done {
			return
		}
		timer.Reset(next)
	}
}

// turn takes in what is new and makes a pass over the pod. A panic in it concerns this pod only. It returns how long
// the actor may rest, and whether the pod has finished.
func (a *actor) turn(ctx context.Context) (rest time.Duration, finished bool) {
	defer func() {
		if r := recover(); r != nil {
			rest, finished = a.panicked(ctx, r), false
		}
	}()

	for f := a.next(); f != nil; f = a.next() {
		if d, ok := f.(pod.Desired); ok {
			a.meter.Resizes().Asked(a.state.Wanted(), d.Pod)
		}
		a.take(f, time.Now())
		a.follow(ctx, f)
	}
	a.seen.Store(a.state.Runtime())

	rest, finished = a.pass(ctx)
	a.panics = 0
	return rest, finished
}

// follow does what has to follow at once from a fact that was taken in.
func (a *actor) follow(ctx context.Context, f pod.Fact) {
	switch f := f.(type) {
	case pod.VolumesFailed:
		klog.FromContext(ctx).V(2).
			Info("Volumes are not ready", "pod", a.uid, "failures", a.state.VolumeFailures(), "cause", f.Message)
	case pod.Resized:
		if err := a.effects.WriteNote(a.state.Note()); err != nil { // the next kubelet would do it once more
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

	defer a.countPass(time.Now())

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
		a.beginStop(now)
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

	if plan.Stopping {
		a.startPreStops(ctx, plan.Actions)
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

// countPass counts a pass that began then, and with the first one the pod.
func (a *actor) countPass(began time.Time) {
	a.meter.Worker(!a.counted, time.Since(began), began.Sub(a.born))
	if !a.counted {
		a.meter.Life().Began(a.state.Pod())
	}
	a.counted = true
}

// beginStop notes that the pod has begun to stop. One that only the runtime knows is counted.
func (a *actor) beginStop(now time.Time) {
	a.take(pod.StopBegan{}, now)
	a.probes.Terminating(a.uid)
	if has := a.state.Runtime(); a.state.Pod() == nil && len(has.Sandboxes)+len(has.Containers) > 0 {
		a.meter.Life().Orphan()
	}
}

// start runs an action in a goroutine. The action returns facts; one of them says how it ended.
func (a *actor) start(ctx context.Context, action pod.Action) {
	j := a.job(ctx, action)
	a.take(pod.ActionStarted{Action: action}, time.Now())
	ctx, done := a.cancels.begin(ctx, action.Key)

	a.tasks.Go(func() {
		var facts []pod.Fact
		err := effect.Guarded(ctx, a.uid, string(action.Kind),
			func() error { facts = a.effects.Run(ctx, j); return nil })
		done()
		if err != nil {
			facts = []pod.Fact{pod.TaskPanicked{Action: action, Message: err.Error()}}
		}
		a.post(facts...)
	})
}

// job is an action with what it needs to know of the pod, for it runs beside the actor.
func (a *actor) job(ctx context.Context, action pod.Action) effect.Job {
	s := a.state
	j := effect.Job{Action: action, Pod: s.Pod(), Runtime: s.Runtime(), PodIP: a.podIP()}
	switch action.Kind {
	case pod.StartContainer:
		j.User = s.Image(action.Name).User
		j.ImageVolumes = effect.ImageVolumes(s)
	case pod.StopContainer:
		j.PreStop = a.preStopOf(ctx, action.ID, action.Name, action.Grace)
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
		switch {
		case e.Key != "" && !a.effects.First("plan/"+e.Key+"/"+e.Reason):
		case len(e.Annotations) > 0:
			a.events.AnnotatedPodEvent(p, e.Annotations, e.Type, e.Reason, e.Message)
		default:
			a.effects.Event(p, e.Container, e.Type, e.Reason, e.Message)
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
	a.effects.Forget()
	a.record.Close()
	a.finished(a)
}

// preStopOf returns the preStop hook of a container that is to be stopped within grace, or nil if it has none. Of a
// pod that only the runtime knows, the container's annotations tell the hook, as for upstream's kubelet.
func (a *actor) preStopOf(ctx context.Context, id, name string, grace time.Duration) *effect.PreStop {
	if grace <= 0 { // all containers are restarted: they are killed
		return nil
	}
	var c *v1.Container
	if p := a.state.Pod(); p != nil {
		c = desired.Find(p, name)
	} else if made, ok := a.state.Runtime().Find(id); ok {
		c = made.Restored
	}
	if c == nil || c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return nil
	}

	h := a.preStops[id]
	if h == nil {
		h = effect.NewPreStop(ctx, c, a.podIP(), a.tasks)
		a.preStops[id] = h
	}
	return h
}

// startPreStops starts the preStop hooks of all running containers when the pod begins to end. Sidecars are stopped
// one after the other; their hooks start together, as with upstream's kubelet.
func (a *actor) startPreStops(ctx context.Context, actions []pod.Action) {
	at := slices.IndexFunc(actions, func(action pod.Action) bool { return action.Kind == pod.StopContainer })
	if at < 0 {
		return
	}
	for _, c := range a.state.Runtime().Containers {
		if c.State != observed.Running {
			continue
		}
		if h := a.preStopOf(ctx, c.ID, c.Name, actions[at].Grace); h != nil {
			a.effects.StartPreStop(h, a.state.Pod(), c.ID, actions[at].Grace)
		}
	}
}

// endPreStops ends the preStop hooks of containers that have ended.
func (a *actor) endPreStops() {
	for id, h := range a.preStops {
		if c, ok := a.state.Runtime().Find(id); !ok || c.State == observed.Exited {
			h.Cancel()
			delete(a.preStops, id)
		}
	}
}
