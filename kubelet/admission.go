package kubelet

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/evict"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/pod/desired"
)

// affinityTimeout bounds the question for the node's labels; without an answer those that are known count.
const affinityTimeout = 5 * time.Second

// admission asks the rules of package admit about pods, with what they need to know of the node.
type admission struct {
	*admit.Admitter
	allot *allot.Manager
	// facts describe the node, as the API has it or as it is known.
	facts func(*v1.Node) admit.Node
	// closed returns why the node admits no pod at all now. It returns nil if it does.
	closed func() *admit.Refusal
	// pressures returns the pressure conditions of the node that are true.
	pressures func() map[v1.NodeConditionType]bool
	// preempt tells pods to end because a critical one lacks a resource.
	preempt func(victims []types.UID, resource v1.ResourceName)
	// known is the node as it is known; fresh reads it from the API, nil without one.
	known func() *v1.Node
	fresh func(context.Context) (*v1.Node, error)
}

// askAdmission asks the node whether it runs the pod: once, or again while the pod waits for room.
func (a *actor) askAdmission(ctx context.Context) {
	s := a.state
	if !s.NeedsAdmission() || s.Static() && !a.statics.MayStart(s.Pod()) {
		return
	}
	running := len(s.Runtime().Containers) > 0
	if !running && !s.Static() && !a.knowledge.mayAdmit() {
		return
	}

	switch refusal, waits := a.admission.decide(ctx, s.Pod(), running); {
	case refusal != nil:
		a.meter.Life().Rejected(refusal.Reason)
		a.take(pod.Refused{Reason: refusal.Reason, Message: refusal.Message}, time.Now())
	case !waits:
		a.take(pod.Admitted{}, time.Now())
	}
}

// decide gives the pod its place or returns why not. running is true for a pod that has containers already. A critical
// pod may have to wait until others have ended: then it is to be asked about again when it is woken.
func (d *admission) decide(ctx context.Context, p *v1.Pod, running bool) (refusal *admit.Refusal, waits bool) {
	if refusal := d.closed(); refusal != nil && !running {
		return refusal, false
	}
	if !running {
		if text := evict.Refuse(p, d.pressures()); text != "" {
			return &admit.Refusal{Reason: evict.Reason, Message: text}, false
		}
		if refusal := d.allot.Allocate(ctx, p); refusal != nil {
			return refusal, false
		}
	} else {
		d.allot.Regain(ctx, p)
	}

	refusal, waits = d.admit(ctx, p, running)
	if refusal != nil {
		d.allot.Release(p.UID)
	} else {
		d.allot.Settled()
	}
	return refusal, waits
}

// Release takes what a pod held, devices and processors too. Releasing twice does nothing.
func (d *admission) Release(uid types.UID) {
	d.allot.Release(uid)
	d.Admitter.Release(uid)
}

// admit applies the rules. waits says that a critical pod gets room which others have not left yet.
func (d *admission) admit(ctx context.Context, p *v1.Pod, running bool) (refusal *admit.Refusal, waits bool) {
	facts := func(n *v1.Node) admit.Node {
		f := d.facts(n)
		f.Allocatable = d.allot.Raised(p.UID, f.Allocatable)
		return f
	}
	node := d.known()
	refusal = d.Admit(p, facts(node), running)
	if refusal != nil && refusal.Reason == admit.AffinityReason && d.fresh != nil {
		// The node's labels may have changed a moment ago, and the watch be late: ask once.
		ctx, cancel := context.WithTimeout(ctx, affinityTimeout)
		defer cancel()
		if n, err := d.fresh(ctx); err == nil {
			node = n
			refusal = d.Admit(p, facts(n), running)
		}
	}
	if refusal == nil || !desired.IsCritical(p) || !strings.HasPrefix(refusal.Reason, admit.OutOf) {
		return refusal, false
	}

	room, refusal := d.Preempt(p, facts(node))
	if len(room.Victims) > 0 {
		d.preempt(room.Victims, room.Resource)
	}
	return refusal, room.Waits
}
