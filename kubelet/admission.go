package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/admit"
)

// affinityTimeout bounds the question for the node's labels; without an answer those that are known count.
const affinityTimeout = 5 * time.Second

// admission asks the rules of package admit about pods, with what they need to know of the node.
type admission struct {
	*admit.Admitter
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
	refusal := d.Admit(p, d.facts(d.known()), running)
	if refusal == nil || refusal.Reason != admit.AffinityReason || d.fresh == nil {
		return refusal
	}

	// The node's labels may have changed a moment ago, and the watch be late: ask once.
	ctx, cancel := context.WithTimeout(ctx, affinityTimeout)
	defer cancel()
	if n, err := d.fresh(ctx); err == nil {
		refusal = d.Admit(p, d.facts(n), running)
	}
	return refusal
}
