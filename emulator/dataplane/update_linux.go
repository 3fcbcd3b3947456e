package dataplane

import (
	"context"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// Update makes the kernel carry a change on top of what was applied last. all gives everything that is desired after
// it; it is asked only if the change cannot be made alone (pods' ports, ways of an overlay, something that failed
// before). The results are those of Apply; UDP flows follow a moment later. The cost does not depend on how much there
// is, but for the kernel's own: it checks every load balancer when one comes (0.7 ms at 4,000 frontends, Linux 6.18).
func (d *DataPlane) Update(ctx context.Context, c desired.Change, all func() desired.State) (map[string]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	facts, err := d.links.Facts(d.uplink)
	if err != nil {
		return nil, err
	}
	if !d.known || d.live == nil || d.live.Host().Facts != facts || !d.live.Takes(c) {
		return d.applyAll(ctx, all())
	}
	live := d.live
	txs := live.Change(c)
	for _, tx := range txs {
		if err == nil && len(live.State.Rejected) == 0 {
			err = d.write(ctx, tx)
		}
	}

	if err != nil || len(live.State.Rejected) > 0 {
		klog.FromContext(ctx).V(2).Info("Making the whole network anew", "reason", err)
		d.known = false // the state that is noted is ahead of the kernel
		return d.applyAll(ctx, all())
	}

	for _, tx := range txs {
		d.flows.Soon(tx.Table, tx.Frontends)
	}
	return map[string]error{}, nil
}

// write hands a small change to the kernel: elements over netlink, chains with the nft program.
func (d *DataPlane) write(ctx context.Context, tx *table.Transaction) error {
	switch {
	case len(tx.Lines) > 0:
		return d.nft.Run(ctx, tx.Script())
	case len(tx.Gone)+len(tx.Come) > 0:
		return d.elements.Write(tx)
	}
	return nil
}
