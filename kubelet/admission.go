package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/admit"
)

// affinityTimeout bounds the question for the node's labels; without an answer those that are known count.
const affinityTimeout = 5 * time.Second

// admission asks the rules of package admit about pods, with what they need to know of the node.
type admission struct {
	*admit.Admitter
	devices devices
	// facts describe the node, as the API has it or as it is known.
	facts func(*v1.Node) admit.Node
	// closed returns why the node admits no pod at all now. It returns nil if it does.
	closed func() *admit.Refusal
	// known is the node as it is known; fresh reads it from the API, nil without one.
	known func() *v1.Node
	fresh func(context.Context) (*v1.Node, error)
}

// decide gives the pod its place or returns why not. running is true for a pod that has containers already.
func (d *admission) decide(ctx context.Context, p *v1.Pod, running bool) *admit.Refusal {
	if refusal := d.closed(); refusal != nil && !running {
		return refusal
	}
	if !running {
		if refusal := d.allocateDevices(ctx, p); refusal != nil {
			return refusal
		}
	}

	refusal := d.admit(ctx, p, running)
	if refusal != nil {
		d.devices.Release(p.UID)
	}
	return refusal
}

// Release takes what a pod held, devices too. Releasing twice does nothing.
func (d *admission) Release(uid types.UID) {
	d.devices.Release(uid)
	d.Admitter.Release(uid)
}

// admit applies the rules.
func (d *admission) admit(ctx context.Context, p *v1.Pod, running bool) *admit.Refusal {
	facts := func(n *v1.Node) admit.Node {
		f := d.facts(n)
		f.Allocatable = d.devices.Raised(p.UID, f.Allocatable)
		return f
	}
	refusal := d.Admit(p, facts(d.known()), running)
	if refusal == nil || refusal.Reason != admit.AffinityReason || d.fresh == nil {
		return refusal
	}

	// The node's labels may have changed a moment ago, and the watch be late: ask once.
	ctx, cancel := context.WithTimeout(ctx, affinityTimeout)
	defer cancel()
	if n, err := d.fresh(ctx); err == nil {
		refusal = d.Admit(p, facts(n), running)
	}
	return refusal
}
