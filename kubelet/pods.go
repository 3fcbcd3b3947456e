package kubelet

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
)

// Pods are the pods that the node knows, each with its actor, and how much is known of all of them. It is made before
// those who ask about pods, and given to New. It is safe for concurrent use.
type Pods struct {
	knowledge knowledge

	mu     sync.Mutex
	actors map[types.UID]*actor
}

// NewPods returns Pods without a pod.
func NewPods() *Pods {
	return &Pods{knowledge: knowledge{began: time.Now()}, actors: map[types.UID]*actor{}}
}

// Alive reports whether a pod has its place on the node, and whether all pods that have one are known.
func (p *Pods) Alive(uid types.UID) (alive, complete bool) {
	return p.find(uid) != nil, p.knowledge.sourcesReady.Load()
}

// Wake has pods looked at again; those that are not known are left out. It does not block.
func (p *Pods) Wake(uids []types.UID) {
	for _, uid := range uids {
		if a := p.find(uid); a != nil {
			a.wake.Wake()
		}
	}
}

// WakeAll has all pods looked at again.
func (p *Pods) WakeAll() { p.each(func(a *actor) { a.wake.Wake() }) }

// View returns all pods as they are now.
func (p *Pods) View() []pod.View {
	var out []pod.View
	p.each(func(a *actor) {
		if v := a.view.Load(); v != nil {
			out = append(out, *v)
		}
	})
	return out
}

// Count counts the pods that the kubelet manages, for the metrics kubelet_active_pods, kubelet_desired_pods and
// kubelet_working_pods.
func (p *Pods) Count() (all meter.Pods) {
	p.each(func(a *actor) {
		v := a.view.Load()
		if v == nil {
			if r := a.seen.Load(); r != nil && len(r.Sandboxes)+len(r.Containers) > 0 {
				all.AddOrphan()
			}
			return
		}

		w := meter.Working{Lifecycle: "sync", Config: "desired", Static: v.Static}
		switch {
		case v.Stopped:
			w.Lifecycle = "terminated"
		case v.Stopping:
			w.Lifecycle = "terminating"
		}
		if v.Orphan {
			w.Config = "orphan"
		}
		all.Add(v.Pod, w)
	})
	return all
}

// each calls f for each actor, without the lock.
func (p *Pods) each(f func(*actor)) {
	p.mu.Lock()
	list := make([]*actor, 0, len(p.actors))
	for _, a := range p.actors {
		list = append(list, a)
	}
	p.mu.Unlock()
	for _, a := range list {
		f(a)
	}
}

// find returns the actor of a pod, nil if it has none.
func (p *Pods) find(uid types.UID) *actor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.actors[uid]
}

// ensure returns the actor of a pod. If it has none, begin makes one, with the lock held: nobody sees the actor before
// begin returns.
func (p *Pods) ensure(uid types.UID, begin func() *actor) *actor {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.actors[uid] == nil {
		p.actors[uid] = begin()
	}
	return p.actors[uid]
}

// forget removes a pod.
func (p *Pods) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.actors, uid)
}
