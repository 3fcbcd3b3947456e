package admit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// need is how much of a resource a critical pod lacks, in the units of amount.
type need struct {
	resource v1.ResourceName
	lacks    int64
}

// victim is a pod that could end to make room for a critical one.
type victim struct {
	uid types.UID
	claim
}

// Preemption is what has to end so that a critical pod can begin.
type Preemption struct {
	// Victims are to be told to end; they are named once.
	Victims []types.UID
	// Resource is the first one that is short.
	Resource v1.ResourceName
	// Waits says that pods that were named, now or before, have not ended yet. Granted is called when one has.
	Waits bool
}

// Preempt gives a critical pod its place although there is no room for it, and names the pods that have to end first:
// nobody else gets what they give up. It returns a refusal if the pod cannot run here for another reason, or if all
// pods that may end do not hold enough.
func (m *Admitter) Preempt(p *v1.Pod, f Node) (Preemption, *Refusal) {
	want := claimOf(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := checkSystem(p, f); r != nil {
		return Preemption{}, r
	}
	if r := checkPlace(p, want, f, m.others(p.UID)); r != nil {
		return Preemption{}, r
	}

	var stay []claim
	var from []victim
	for _, uid := range slices.Sorted(maps.Keys(m.held)) {
		if _, ends := m.yields[uid]; ends || uid == p.UID {
			continue
		}
		stay = append(stay, m.held[uid])
		if precedes(want, m.held[uid]) {
			from = append(from, victim{uid, m.held[uid]})
		}
	}

	out := Preemption{}
	if needs := missing(want.requests, f.Allocatable, stay); len(needs) > 0 {
		chosen, err := choose(needs, from)
		if err != nil {
			return Preemption{}, &Refusal{"UnexpectedAdmissionError",
				"Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: " + err.Error()}
		}
		out.Resource = needs[0].resource
		for _, v := range chosen {
			out.Victims = append(out.Victims, v.uid)
			m.yields[v.uid] = p.UID
		}
	}
	m.held[p.UID] = want
	for _, critical := range m.yields {
		out.Waits = out.Waits || critical == p.UID
	}
	return out, nil
}

// precedes reports whether a pod may take the place of another: a critical one that of one that is not, and each that
// of one with a lower priority.
func precedes(a, b claim) bool {
	return a.critical && !b.critical || a.priority != nil && b.priority != nil && *a.priority > *b.priority
}

// holds returns what ends with the pod of a resource. Each pod is one of those that the node can have.
func (v *victim) holds(name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	return amount(name, v.requests[name])
}

// missing returns what a pod lacks to fit.
func missing(want, allocatable v1.ResourceList, others []claim) (out []need) {
	if limit, ok := allocatable[v1.ResourcePods]; ok && int64(len(others)+1) > limit.Value() {
		out = append(out, need{v1.ResourcePods, int64(len(others)+1) - limit.Value()})
	}
	for name, asked := range want {
		have, known := allocatable[name]
		if asked.IsZero() || !known {
			continue
		}
		total := amount(name, asked)
		for _, o := range others {
			total += amount(name, o.requests[name])
		}
		if short := total - amount(name, have); short > 0 {
			out = append(out, need{name, short})
		}
	}
	slices.SortFunc(out, func(a, b need) int { return importance(a.resource, b.resource) })
	return out
}

// choose returns the pods that end so that nothing is lacking any more: as few as possible, those that asked for
// nothing before those that asked for less than their limits, and these before guaranteed ones. It is upstream's
// choice (pkg/kubelet/preemption of 1.36.3). It returns an error if all of them together do not hold enough.
func choose(needs []need, from []victim) ([]victim, error) {
	if left := without(needs, from); len(left) > 0 {
		text := ""
		for _, n := range left {
			text += fmt.Sprintf("(res: %s, q: %d), ", n.resource, n.lacks)
		}
		return nil, fmt.Errorf("no set of running pods found to reclaim resources: [%s]", text)
	}
	class := func(c v1.PodQOSClass) []victim {
		return slices.DeleteFunc(slices.Clone(from), func(v victim) bool { return v.class != c })
	}
	best := class(v1.PodQOSBestEffort)
	burst := class(v1.PodQOSBurstable)
	guaranteed := class(v1.PodQOSGuaranteed)

	// Of each class no more go than those of the lower classes leave over.
	high := nearest(guaranteed, without(needs, best, burst))
	middle := nearest(burst, without(needs, best, high))
	low := nearest(best, without(needs, middle, high))
	return slices.Concat(low, middle, high), nil
}

// without returns what is lacking still when these pods have ended.
func without(needs []need, ended ...[]victim) (left []need) {
	for _, n := range needs {
		for _, list := range ended {
			for i := range list {
				n.lacks -= list[i].holds(n.resource)
			}
		}
		if n.lacks > 0 {
			left = append(left, n)
		}
	}
	return left
}

// nearest takes pods until nothing is lacking: each time the one that leaves least lacking, and of equal ones the one
// that asked for less. The pods together hold enough.
func nearest(pods []victim, needs []need) (out []victim) {
	for len(needs) > 0 && len(pods) > 0 {
		best := 0
		for i := range pods {
			if c := cmp.Compare(distance(&pods[i], needs), distance(&pods[best], needs)); c < 0 ||
				c == 0 && smaller(&pods[i], &pods[best]) {
				best = i
			}
		}
		out = append(out, pods[best])
		needs = without(needs, pods[best:best+1])
		pods = slices.Delete(pods, best, best+1)
	}
	return out
}

// distance is how much would be lacking still without a pod: the sum of the squares of the shares of each need.
func distance(v *victim, needs []need) (sum float64) {
	for _, n := range needs {
		if left := n.lacks - v.holds(n.resource); left > 0 {
			share := float64(left) / float64(n.lacks)
			sum += share * share
		}
	}
	return sum
}

// smaller reports whether a asked for less memory than b, or for as much and less of the processors.
func smaller(a, b *victim) bool {
	return cmp.Or(cmp.Compare(a.holds(v1.ResourceMemory), b.holds(v1.ResourceMemory)),
		cmp.Compare(a.holds(v1.ResourceCPU), b.holds(v1.ResourceCPU))) < 0
}
