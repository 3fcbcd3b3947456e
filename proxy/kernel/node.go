package kernel

import (
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
)

// nodePatience is how long plans wait for the node's addresses after the start. Without them a load balancer with the
// node's address would count as unwanted, be deleted, and be created again a moment later.
const nodePatience = time.Second

// awaitNode makes plans wait for the node's addresses, if NodeChanged will announce them.
func (p *Proxy) awaitNode() {
	p.nodeAwaited = p.opts.NodeAddrs != nil && p.opts.NodeChanged != nil && p.opts.NodeAccess
	if p.nodeAwaited {
		p.work.at(time.Now().Add(nodePatience), p.stopAwaitingNode)
	}
}

func (p *Proxy) stopAwaitingNode() {
	if p.nodeAwaited {
		p.nodeAwaited = false
		p.planAll()
	}
}

// nodeAddrs returns the addresses by which programs of the node reach its node ports. certain says that they are the
// node's own, and not a guess from the network.
func (o *Options) nodeAddrs(network *hns.Network) (addrs []netip.Addr, certain bool) {
	if !o.NodeAccess {
		return nil, true
	}
	if o.NodeAddrs != nil {
		if addrs := o.NodeAddrs(); len(addrs) > 0 {
			return addrs, true
		}
	}
	if network.Management.IsValid() {
		return []netip.Addr{network.Management}, false
	}
	return nil, false
}

// nodeChanged follows the node's addresses.
func (p *Proxy) nodeChanged() {
	facts := &p.known.facts
	if facts.Network.ID == "" {
		return // the full check that finds the network asks again
	}

	addrs, certain := p.opts.nodeAddrs(&facts.Network)
	if !slices.Equal(addrs, facts.NodeAddrs) {
		p.logger.Info("The node's addresses changed", "were", facts.NodeAddrs, "are", addrs)
		p.report.begin()
		facts.NodeAddrs = addrs
		p.rederive()
		p.planAll()
	}
	if certain {
		p.stopAwaitingNode()
	}
}
