package kernel

import (
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
)

// nodePatience is how long plans wait for the node's addresses after the start. Without them a load balancer with the node's
// own address would count as one that nobody wants, be deleted, and made again a moment later.
const nodePatience = time.Second

// awaitNode has plans wait where somebody will tell when the node's addresses come.
func (p *Proxy) awaitNode() {
	if p.nodeAwaited = p.opts.NodeAddrs != nil && p.opts.NodeChanged != nil && !p.opts.NoNodeAccess; p.nodeAwaited {
		p.at(time.Now().Add(nodePatience), p.nodeCame)
	}
}

// nodeCame ends the wait, with the addresses or without.
func (p *Proxy) nodeCame() {
	if p.nodeAwaited {
		p.nodeAwaited = false
		p.everything()
	}
}

// nodeAddrs are those by which programs of the node reach its node ports; told: they are the node's own word, and no guess
// from the network.
func (p *Proxy) nodeAddrs(network *hns.Network) (addrs []netip.Addr, told bool) {
	if p.opts.NoNodeAccess {
		return nil, true
	}
	if p.opts.NodeAddrs != nil {
		if addrs := p.opts.NodeAddrs(); len(addrs) > 0 {
			return addrs, true
		}
	}
	if network.Management.IsValid() {
		return []netip.Addr{network.Management}, false
	}
	return nil, false
}

// nodeMoved follows the node's addresses.
func (p *Proxy) nodeMoved() {
	if p.facts.Network.ID == "" {
		return // the survey that finds the network asks again
	}
	addrs, told := p.nodeAddrs(&p.facts.Network)
	if !slices.Equal(addrs, p.facts.NodeAddrs) {
		p.logger.Info("The node's addresses are others", "were", p.facts.NodeAddrs, "are", addrs)
		p.begin()
		p.facts.NodeAddrs = addrs
		p.reoffer()
		p.everything()
	}
	if told {
		p.nodeCame()
	}
}
