package kubelet

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/image"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
)

// Times of the watch over what the node has left.
const (
	// pressurePeriod is how often it is read. Upstream reads it each 10 s; this reads a few files, and a pod that has
	// to go goes sooner.
	pressurePeriod = 5 * time.Second
	// limitPeriod is how often the pods with a limit of local storage are measured, at most: whole trees of files are
	// read. Upstream's period.
	limitPeriod = 10 * time.Second
	// limitShare bounds the time that measuring takes, a 50th, as long as it is quick: the next measurement begins
	// within limitMost.
	limitShare = 50
	limitMost  = 30 * time.Second
	// reclaimWait is how long the removal of ended containers is waited for.
	reclaimWait = 10 * time.Second
	// starvedPeriod is how often an event says that the node reclaims. Upstream's period of rounds.
	starvedPeriod = 10 * time.Second
	// roundSteps bounds the calls of Next in a round: one to learn what it needs, one with that, and one more.
	roundSteps = 3
)

// pressure carries out what package evict decides.
type pressure struct {
	Pressure
	pods       *Pods
	conditions func(map[v1.NodeConditionType]bool) // sets the node's pressure conditions
	images     *image.GC                           // nil: unused images stay
	event      func(eventType, reason, message string)
	meter      *meter.Meter

	// The fields below are used by run only.
	state evict.State
	// limitsAfter is when pods with a limit of local storage may be measured again; toldAt when the last event about a
	// starved node was sent.
	limitsAfter, toldAt time.Time
}

// run keeps the node's pressure conditions right and evicts pods, until ctx ends. It returns at once if there is
// nothing to watch.
func (w *pressure) run(ctx context.Context) {
	if w.Reader == nil || len(w.Thresholds) == 0 && !w.LocalLimits {
		return
	}

	loop.Loop{Pass: w.round, Period: pressurePeriod}.Run(ctx)
}

// round reads what is left and does what follows from it. What cannot be read changes nothing.
func (w *pressure) round(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	left, err := w.Reader.Left(ctx)
	if err != nil {
		logger.Error(err, "Reading what is left on the node failed")
		return nil
	}

	seen := evict.Observed{Left: left}
	views := w.present()
	seen.Pods = podsOf(views, nil)
	for range roundSteps {
		plan, after := w.state.Next(w.Desired, seen, time.Now())
		w.conditions(plan.Conditions)
		if plan.Needs.None() || w.tooEarly(plan.Needs) {
			w.state = after
			w.carryOut(ctx, &plan)
			return nil
		}

		w.tell(plan.Starved)
		if seen, err = w.supply(ctx, plan.Needs, seen, views); err != nil {
			logger.Error(err, "Reading what pods use failed")
			return nil
		}
	}
	return nil
}

// present returns the pods of which something is on the node but containers that are kept for their logs.
func (w *pressure) present() []pod.View {
	return slices.DeleteFunc(w.pods.View(), func(v pod.View) bool { return v.Cleaned })
}

// podsOf describes pods to package evict, with what they use if that is known.
func podsOf(views []pod.View, usage map[types.UID]*evict.Usage) []evict.Pod {
	out := make([]evict.Pod, 0, len(views))
	for _, v := range views {
		out = append(out, evict.Pod{Pod: v.Pod, Usage: usage[v.Pod.UID]})
	}
	return out
}

// tooEarly reports whether only pods with a limit of local storage are to be measured, and were a short time ago.
func (w *pressure) tooEarly(n evict.Needs) bool {
	return n.Reclaim == evict.Reclaim{} && !n.Usage && time.Now().Before(w.limitsAfter)
}

// supply does and reads what a plan needs.
func (w *pressure) supply(ctx context.Context, n evict.Needs, seen evict.Observed, views []pod.View) (evict.Observed,
	error) {
	if (n.Reclaim != evict.Reclaim{}) {
		w.reclaim(ctx, n.Reclaim)
		left, err := w.Reader.Left(ctx)
		if err != nil {
			return seen, err
		}
		seen.Left, seen.Reclaimed = left, true
	}
	if !n.Usage && len(n.UsageOf) == 0 {
		return seen, nil
	}

	began := time.Now()
	if !n.Usage {
		asked := slices.DeleteFunc(slices.Clone(views),
			func(v pod.View) bool { return !slices.Contains(n.UsageOf, v.Pod.UID) })
		usage, whole := w.Reader.LocalUsage(ctx, asked)
		w.limitsAfter = nextLimits(began, time.Since(began), whole)
		seen.Pods = podsOf(views, usage)
		seen.Measured = true
		return seen, nil
	}

	usage, err := w.Reader.Usage(ctx, views)
	if err != nil {
		return seen, err
	}
	w.limitsAfter = nextLimits(began, time.Since(began), true)
	seen.Pods = podsOf(views, usage)
	seen.Measured = true
	return seen, nil
}

// nextLimits returns when the pods with a limit of local storage may be measured again. A pod can fill the disk within
// seconds, so a measurement that took long, or knew a part only, is soon followed by another one.
func nextLimits(began time.Time, took time.Duration, whole bool) time.Time {
	if !whole {
		return began.Add(limitPeriod)
	}
	return began.Add(min(max(limitPeriod, limitShare*took), limitMost))
}

// reclaim gives back what no pod needs. What fails leaves the pods to pay for it.
func (w *pressure) reclaim(ctx context.Context, r evict.Reclaim) {
	logger := klog.FromContext(ctx)
	if r.Containers {
		w.pods.each(func(a *actor) { a.post(pod.Reclaimed{}) })
		w.awaitRemoval(ctx)
	}
	if gc := w.images; r.Images && gc != nil {
		freed, err := gc.Reclaim(ctx)
		if err != nil {
			logger.Error(err, "Removing unused images failed")
		}
		logger.Info("The disk is full: unused images were removed", "bytes", freed)
	}
}

// awaitRemoval waits until pods that have ended have no container in the runtime any more, but not for long.
func (w *pressure) awaitRemoval(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reclaimWait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left := slices.ContainsFunc(w.pods.View(), func(v pod.View) bool { return v.Cleaned && len(v.Logs) > 0 })
		if !left {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell records an event about a node that runs out of a resource.
func (w *pressure) tell(what v1.ResourceName) {
	if what == "" || time.Since(w.toldAt) < starvedPeriod {
		return
	}
	w.toldAt = time.Now()
	// upstream's words
	w.event(v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim "+string(what))
}

// carryOut tells the pods of a plan to end.
func (w *pressure) carryOut(ctx context.Context, plan *evict.Plan) {
	logger := klog.FromContext(ctx)
	if plan.Stuck {
		logger.Info("The node runs out of a resource, and no pod may be evicted", "resource", plan.Starved)
	}
	for _, e := range plan.Evictions {
		a := w.pods.find(e.Pod.UID)
		if a == nil {
			continue
		}
		logger.Info("A pod is evicted", "pod", klog.KObj(e.Pod), "signal", e.Signal, "grace", e.Grace, "cause",
			e.Message)
		fact := pod.Evicted{Reason: evict.Reason, Message: e.Message, Grace: &e.Grace, Annotations: e.Annotations}
		if e.Disruption {
			fact.Disruption = e.Message
		}
		a.post(fact)
		w.meter.Evicted(e.Signal, e.Age)
	}
}

// Texts about a pod that ends to make room for a critical one, in upstream's words.
const (
	preempting        = "Preempting"
	preemptMessage    = "Preempted in order to admit critical pod"
	preemptDisruption = "Pod was preempted by Kubelet to accommodate a critical pod."
)
