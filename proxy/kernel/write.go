package kernel

import (
	"context"
	"slices"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
)

// outcome is what a write did.
type outcome struct {
	err    error
	made   *hns.LoadBalancer
	gone   []hns.LoadBalancerID
	writes int
	// lied: HNS answered success to a modification and did not do it.
	lied bool
}

// write does one operation on a load balancer; lb is its document with endpoints. A modification counts as done only
// if the document that HNS answers says so: HNS may answer success and do nothing, or know the id no more. A
// replacement is back to back, so that nothing comes between.
func write(ctx context.Context, host balancerWriter, op balance.Op, lb hns.LoadBalancer) (o outcome) {
	remove := func() bool {
		if o.err = host.DeleteLoadBalancer(ctx, op.Old); o.err == nil {
			o.gone = append(o.gone, op.Old)
			o.writes++
		}
		return o.err == nil
	}
	create := func() {
		made, err := host.CreateLoadBalancer(ctx, lb)
		if o.err = err; err == nil {
			o.made = &made
			o.writes++
		}
	}

	switch op.Verb {
	case balance.DeleteLB:
		remove()
	case balance.CreateLB:
		create()
	case balance.ReplaceLB:
		if remove() {
			create()
		}
	case balance.ModifyLB:
		now, err := host.ModifyLoadBalancer(ctx, lb)
		class := hns.ClassOf(err)
		switch {
		case err == nil && sameAsAsked(now, lb):
			o.made = &now
			o.writes++
		case class == hns.Absent:
			o.gone = append(o.gone, op.Old)
			create()
		case err == nil || class == hns.Unsupported:
			o.lied = true
			if remove() {
				create()
			}
		default:
			o.err = err
		}
	}
	return o
}

func sameAsAsked(a, b hns.LoadBalancer) bool {
	x := slices.Clone(a.Endpoints)
	y := slices.Clone(b.Endpoints)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y) && slices.Equal(a.Ports, b.Ports)
}

// documentsFound is what reading some load balancers gave.
type documentsFound struct {
	documents []hns.LoadBalancer
	gone      []hns.LoadBalancerID
	err       error // the last one
}

func readBalancers(ctx context.Context, host documentReader, ids []hns.LoadBalancerID) (found documentsFound) {
	for _, id := range ids {
		lb, err := host.LoadBalancer(ctx, id)
		switch {
		case err == nil:
			found.documents = append(found.documents, lb)
		case hns.IsAbsent(err):
			found.gone = append(found.gone, id)
		default:
			found.err = err
		}
	}
	return found
}
