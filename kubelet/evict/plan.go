package evict

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// How a pod ends, and how long its end is waited for. The values are upstream's.
const (
	// of containers of a pod that has to go at once (immediateEvictionGracePeriodSeconds)
	hardGrace   = time.Second
	cleanupWait = 30 * time.Second // until another pod is evicted although the last one is not gone (podCleanupTimeout)
)

// State is what is remembered between rounds. The zero State is that of a kubelet that has just started.
type State struct {
	since map[key]time.Time                  // since when a threshold is not met
	last  map[v1.NodeConditionType]time.Time // when a condition was last caused
	// thresholds whose grace is over and whose minimum reclaim is not left yet
	acting map[key]bool
	ending map[types.UID]time.Time // pods that were evicted
}

// key identifies a threshold: a signal has one hard and one soft threshold at most.
type key struct {
	signal string
	grace  time.Duration
}

func (t *Threshold) key() key { return key{t.Signal, t.Grace} }

// round is one call of Next.
type round struct {
	Desired
	o      *Observed
	now    time.Time
	before State
	after  State
}

// Next makes a round: it returns the plan and the state after it. s is not changed. A plan whose Needs are not None
// asks for another call with the same State, once Observed has what it needs.
func (s State) Next(d Desired, o Observed, now time.Time) (Plan, State) {
	r := &round{Desired: d, o: &o, now: now, before: s}
	r.Thresholds = derived(d.Thresholds, &o)
	r.assess()
	p := Plan{Conditions: r.conditions()}
	if !r.waiting() {
		r.act(&p)
	}
	return p, r.after
}

// assess finds out which thresholds are not met, and since when. A signal without a level is unknown: nothing begins
// because of it, and what it has caused ends as if it were met.
func (r *round) assess() {
	r.after = State{since: map[key]time.Time{}, last: map[v1.NodeConditionType]time.Time{}, acting: map[key]bool{},
		ending: map[types.UID]time.Time{}}
	for c, at := range r.before.last {
		r.after.last[c] = at
	}

	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		l, known := r.o.Levels[t.Signal]
		if !known || l.Whole == 0 || t.met(l, false) && (!r.before.acting[t.key()] || t.met(l, true)) {
			continue
		}
		since, already := r.before.since[t.key()]
		if !already {
			since = r.now
		}
		r.after.since[t.key()] = since
		r.after.last[signals[t.Signal].condition] = r.now
		if r.now.Sub(since) >= t.Grace {
			r.after.acting[t.key()] = true
		}
	}
}

// conditions returns those that are true: caused within the transition period.
func (r *round) conditions() map[v1.NodeConditionType]bool {
	out := map[v1.NodeConditionType]bool{}
	for c, at := range r.after.last {
		if r.now.Equal(at) || r.now.Sub(at) < r.Transition {
			out[c] = true
		} else {
			delete(r.after.last, c)
		}
	}
	return out
}

// waiting keeps the evicted pods that are still there in mind, and reports whether one of them may be for a while.
func (r *round) waiting() (waits bool) {
	for uid, at := range r.before.ending {
		if slices.ContainsFunc(r.o.Pods, func(p Pod) bool { return p.UID == uid }) {
			r.after.ending[uid] = at
			waits = waits || r.now.Sub(at) < cleanupWait
		}
	}
	return waits
}

// spared reports whether a pod is not to be evicted: it is critical, has ended, or was evicted already.
func (r *round) spared(p *Pod) bool {
	_, ending := r.before.ending[p.UID]
	return ending || p.ended() || desired.IsCritical(p.Pod)
}

// act adds to the plan what has to be done.
func (r *round) act(p *Plan) {
	starved := r.starved()
	if starved != nil {
		p.Starved = signals[starved.Signal].resource
	}

	if !r.o.Measured {
		p.Needs.Usage = starved != nil
		if starved == nil && r.LocalLimits {
			p.Needs.UsageOf = r.limited()
		}
	} else if r.LocalLimits {
		p.Evictions = r.overLimits()
	}
	if starved != nil && !r.o.Reclaimed && len(p.Evictions) == 0 {
		p.Needs.Reclaim = reclaimFor(starved.Signal, r.o)
	}

	if starved != nil && p.Needs.None() && len(p.Evictions) == 0 && (!r.o.Reclaimed || !r.relieved()) {
		r.evictOne(p, starved)
	}
	for _, e := range p.Evictions {
		r.after.ending[e.Pod.UID] = r.now
	}
}

// starved returns the threshold to reclaim for, nil if there is none: memory comes first, then the order of the
// configuration.
func (r *round) starved() *Threshold {
	var first *Threshold
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		if !r.after.acting[t.key()] {
			continue
		}
		if signals[t.Signal].resource == v1.ResourceMemory {
			return t
		}
		if first == nil {
			first = t
		}
	}
	return first
}

// relieved reports whether all thresholds are met after something was given back, with their minimum reclaim.
func (r *round) relieved() bool {
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		if l, known := r.o.Levels[t.Signal]; known && l.Whole > 0 && !t.met(l, true) {
			return false
		}
	}
	return true
}

// reclaimFor returns what can be given back of a resource. With images apart, ended containers and images take nothing
// of the node's own file system; with layers apart, ended containers take nothing of that of images.
func reclaimFor(signal string, o *Observed) Reclaim {
	switch signal {
	case NodeFsAvailable, NodeFsInodesFree:
		return Reclaim{Containers: !o.ImagesApart || o.LayersApart, Images: !o.ImagesApart}
	case ImageFsAvailable, ImageFsInodesFree:
		return Reclaim{Containers: !o.LayersApart, Images: true}
	case ContainerFsAvailable, ContainerFsInodesFree:
		return Reclaim{Containers: true, Images: !o.LayersApart}
	}
	return Reclaim{}
}

// evictOne evicts the first pod of the ranking that may be evicted.
func (r *round) evictOne(p *Plan, t *Threshold) {
	ranked := rank(t.Signal, r.o)
	i := slices.IndexFunc(ranked, func(p Pod) bool { return !r.spared(&p) })
	if i < 0 {
		p.Stuck = true
		return
	}

	chosen := ranked[i]
	e := Eviction{Pod: chosen.Pod, Grace: hardGrace, Signal: t.Signal, Disruption: true}
	if t.Grace > 0 {
		e.Grace = r.MaxGrace
		if own := chosen.Spec.TerminationGracePeriodSeconds; own != nil {
			e.Grace = min(e.Grace, time.Duration(*own)*time.Second)
		}
	}
	if at := r.o.Levels[t.Signal].At; !at.IsZero() {
		e.Age = r.now.Sub(at)
	}
	e.Message, e.Annotations = r.words(signals[t.Signal].resource, &chosen)
	p.Evictions = append(p.Evictions, e)
}
