package admit

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// waiter is a resize for which there was no room. When pods release what they held, the waiters get it in the order of
// before.
type waiter struct {
	pod         *v1.Pod
	want        claim
	allocatable v1.ResourceList
	since       time.Time
}

// Resize reserves what an admitted pod now asks for, or returns why there is no room. A pod that does not fit waits,
// and Granted is called when it fits. The wait counts from now of the first call that did not fit.
func (m *Admitter) Resize(p *v1.Pod, allocatable v1.ResourceList, now time.Time) *Refusal {
	want := claimOf(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := fits(want.requests, allocatable, m.others(p.UID)); r != nil {
		since := now
		if old := m.waiting[p.UID]; old != nil {
			since = old.since
		}
		m.waiting[p.UID] = &waiter{p, want, allocatable, since}
		return r
	}
	delete(m.waiting, p.UID)
	m.held[p.UID] = want
	m.regrant()
	return nil
}

// Keep ends the wait of a pod that no longer asks for more than it has.
func (m *Admitter) Keep(p *v1.Pod) {
	want := claimOf(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[p.UID] == nil && requestsEqual(m.held[p.UID], want) {
		return
	}
	delete(m.waiting, p.UID)
	m.held[p.UID] = want
	m.regrant()
}

func requestsEqual(a, b claim) bool {
	less := func(a, b v1.ResourceList) bool {
		for name, q := range a {
			if other := b[name]; q.Cmp(other) != 0 {
				return false
			}
		}
		return true
	}
	return less(a.requests, b.requests) && less(b.requests, a.requests)
}

// regrant gives room to the waiting resizes that now fit. The caller holds the lock.
func (m *Admitter) regrant() {
	var queue []*waiter
	for _, w := range m.waiting {
		queue = append(queue, w)
	}
	slices.SortFunc(queue, before)
	for _, w := range queue {
		if fits(w.want.requests, w.allocatable, m.others(w.pod.UID)) == nil {
			delete(m.waiting, w.pod.UID)
			m.held[w.pod.UID] = w.want
			m.Granted(w.pod.UID)
		}
	}
}

// before is upstream's order of waiting resizes: by priority, then by QoS class, then by waiting time.
func before(a, b *waiter) int {
	priority := func(p *v1.Pod) int32 {
		if p.Spec.Priority == nil {
			return 0
		}
		return *p.Spec.Priority
	}
	class := func(p *v1.Pod) int {
		if p.Status.QOSClass == v1.PodQOSGuaranteed {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(priority(b.pod), priority(a.pod)), cmp.Compare(class(a.pod), class(b.pod)),
		a.since.Compare(b.since),
		cmp.Compare(a.pod.UID, b.pod.UID))
}

// others returns the claims of all pods but one. The caller holds the lock.
func (m *Admitter) others(uid types.UID) []claim {
	out := make([]claim, 0, len(m.held))
	for other, c := range m.held {
		if other != uid {
			out = append(out, c)
		}
	}
	return out
}
