package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// supplyBegun makes or deletes an endpoint.
func (p *Proxy) supplyBegun(s *supply) bool {
	if s.delete != (guid{}) {
		p.deleteEndpoint(s)
		return true
	}
	want, uncovered := p.endpointFor(s)
	if e := p.x.remotes[s.addr]; e != nil && want.Remote || !want.Remote && p.x.locals[s.addr] != nil {
		p.supplied(s)
		return false
	}
	type answer struct {
		made    hns.Endpoint
		network hns.Network // as read now, if it has a way that we did not know
		err     error
	}
	host, name, facts := p.opts.Host, p.opts.NetworkName, p.facts
	call(p, &s.task, func(ctx context.Context) (a answer) {
		if uncovered {
			// The way to a node that has just joined may be newer than what we know.
			if facts.Network, a.err = host.NetworkByName(ctx, name); a.err != nil {
				return a
			}
			if _, found := facts.provider(s.addr); found && facts.Network.ID == want.Network {
				want, a.network = remoteDocument(s.addr, &facts), facts.Network
			}
		}
		a.made, a.err = host.CreateEndpoint(ctx, want)
		if hns.ClassOf(a.err) != hns.Exists {
			return a
		}
		// Our own from an attempt that HNS did not answer; anything else under our id is not what we need.
		if old, err := host.Endpoint(ctx, want.ID); err == nil && old.Has(s.addr) && old.Remote == want.Remote {
			a.made, a.err = old, nil
		}
		return a
	}, func(a answer) {
		p.heard(a.err)
		if a.err == nil && !a.made.Has(s.addr) {
			a.err = fmt.Errorf("creating endpoint %s: HNS made one with %v instead", s.addr, a.made.Addrs)
		}
		if a.err != nil {
			p.supplyFailed(s, a.err)
			return
		}
		p.passed.writes++
		p.putEndpoint(a.made)
		if a.network.ID != "" && a.network.ID == p.facts.Network.ID {
			p.facts.Network = a.network
			p.checked = 0
			p.everything()
		}
		p.supplied(s)
	})
	return true
}

// endpointFor is the document for an address that targets wait for; uncovered says that an overlay network, as known, has no
// way to it.
func (p *Proxy) endpointFor(s *supply) (e hns.Endpoint, uncovered bool) {
	if p.facts.overlay() {
		if s.addr == p.facts.SourceVIP {
			return sourceDocument(&p.facts), false
		}
		if slices.ContainsFunc(s.waiters, func(t *target) bool {
			return t.f != nil && t.f.Kind == service.ClusterIP && t.f.VIP == s.addr
		}) {
			return vipDocument(s.addr, &p.facts), false
		}
	}
	_, covered := p.facts.provider(s.addr)
	return remoteDocument(s.addr, &p.facts), p.facts.overlay() && !covered
}

func (p *Proxy) putEndpoint(e hns.Endpoint) {
	if h, ok := compactEndpoint(e); ok {
		p.noteTouched(h.id)
		p.x.putEndpoint(h)
	}
}

// supplied ends a supply and lets go on who waited for it.
func (p *Proxy) supplied(s *supply) {
	delete(p.supplies, s.addr)
	p.release(s)
	if s.trouble != nil && s.trouble.streak >= enduring {
		for t := range p.troubled {
			if t.trouble.reason == endpointFailed {
				t.trouble.next = time.Time{}
				p.consider(t)
			}
		}
	}
}

// release considers those who waited.
func (p *Proxy) release(s *supply) {
	waiters := s.waiters
	s.waiters = nil
	for _, t := range waiters {
		if t.phase != waiting {
			continue
		}
		if t.blockers--; t.blockers <= 0 {
			t.phase = idle
			p.consider(t)
		}
	}
}

const endpointFailed = "EndpointFailed"

// supplyFailed tries again soon; when it fails for long, frontends go on without.
func (p *Proxy) supplyFailed(s *supply, err error) {
	p.logger.V(2).Info("Operation failed", "operation", "endpoint "+s.addr.String(), "err", err)
	s.trouble = p.worse(s.trouble, flaw{endpointFailed, err.Error()}, err)
	if hns.ClassOf(err) != hns.Unknown {
		// The address is somebody's, or the network is gone: list.
		p.startSurvey(false)
	}
	if s.trouble.streak < enduring {
		s.trouble.next = time.Now().Add(p.opts.RetryMin << (s.trouble.streak - 1) / 4)
	} else {
		if s.addr == p.facts.SourceVIP && s.trouble.class == hns.Invalid {
			p.otherSource()
		}
		for _, t := range s.waiters {
			p.fail(t, flaw{endpointFailed, fmt.Sprintf("%s: %v", t.key, err)}, err)
			t.trouble.next = time.Time{}
		}
		p.release(s)
	}
	p.at(s.trouble.next, func() {
		if p.supplies[s.addr] != s {
			return
		}
		if s.trouble.streak >= enduring && len(s.waiters) == 0 && !p.wantsAddress(s) {
			delete(p.supplies, s.addr)
			return
		}
		p.enqueue(&s.task)
	})
}

// wantsAddress says whether a failing supply is still good for something.
func (p *Proxy) wantsAddress(s *supply) bool {
	if s.delete != (guid{}) {
		return p.x.endpoints[s.delete] != nil
	}
	for t := range p.troubled {
		if t.f != nil && (t.f.VIP == s.addr || s.addr == p.facts.SourceVIP ||
			slices.ContainsFunc(t.f.Backends, func(b service.Backend) bool { return b.Addr == s.addr })) {
			return true
		}
	}
	return false
}

// sweepEndpoints deletes endpoints of ours that nothing uses. It looks at everything, from scratch: it is run when there is
// nothing else to do.
func (p *Proxy) sweepEndpoints() {
	started := time.Now()
	defer func() { p.nextSweep = time.Now().Add(20 * time.Since(started)) }()
	w := p.view()
	round := p.x.round()
	for _, b := range p.x.balancers {
		w.holds(b, round)
	}
	for _, t := range p.targets {
		// What is as wanted has its load balancer's endpoints, except for those of an overlay's own.
		if t.f != nil && (!t.done || p.facts.overlay()) {
			w.uses(t.f, round)
		}
	}
	for id, e := range p.x.endpoints {
		if !w.idle(e, round) {
			continue
		}
		key := e.addr
		if p.supplies[key] != nil {
			continue // being made, or being deleted already
		}
		if !key.IsValid() { // half a document: its id stands for an address
			key = netip.AddrFrom16(id)
		}
		s := &supply{addr: key, delete: id}
		s.rank = cleaning
		s.run = func() bool { return p.supplyBegun(s) }
		if p.supplies[key] == nil {
			p.supplies[key] = s
			p.enqueue(&s.task)
		}
	}
}

func (p *Proxy) deleteEndpoint(s *supply) {
	id := s.delete
	host := p.opts.Host
	if len(s.waiters) > 0 || p.x.endpoints[id] == nil { // wanted again meanwhile, or gone
		p.supplied(s)
		return
	}
	call(p, &s.task, func(ctx context.Context) error { return host.DeleteEndpoint(ctx, hns.EndpointID(id.String())) },
		func(err error) {
			p.heard(err)
			if err != nil {
				p.supplyFailed(s, err)
				return
			}
			p.passed.writes++
			p.noteTouched(id)
			p.x.dropEndpoint(id)
			p.supplied(s)
		})
}

// sweepBalancers makes targets of load balancers of ours that no frontend claims.
func (p *Proxy) sweepBalancers() {
	for id, b := range p.x.balancers {
		if !ownsLB(id) || p.litter[id] != nil {
			continue
		}
		keys := keysOf(b.doc)
		if slices.ContainsFunc(keys, func(k service.Key) bool { return p.targets[k] != nil }) {
			continue
		}
		t := &target{litter: id}
		t.rank = cleaning
		if len(keys) > 0 {
			t.key = keys[0]
		}
		t.run = func() bool { return p.begun(t) }
		p.litter[id] = t
		p.consider(t)
	}
}

// otherSource chooses another source address for an overlay network after HNS refused ours for long: the highest of the
// node's subnet that no endpoint has.
func (p *Proxy) otherSource() {
	for _, s := range p.facts.Network.Subnets {
		if !s.Prefix.Addr().Is4() {
			continue
		}
		if addr, ok := p.freeAddress(s); ok {
			p.logger.Info("HNS refuses the source address; another one is used", "refused", p.facts.SourceVIP, "chosen", addr)
			p.facts.SourceVIP = addr
			p.checked = 0
			p.everything()
			return
		}
	}
}

func (p *Proxy) freeAddress(s hns.Subnet) (netip.Addr, bool) {
	b := s.Prefix.Masked().Addr().As4()
	host := uint32(1)<<(32-s.Prefix.Bits()) - 2
	base := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	for i := range min(host, 1024) {
		n := base + host - i
		addr := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		if addr != s.Gateway && addr != p.facts.SourceVIP && p.x.locals[addr] == nil && p.x.remotes[addr] == nil {
			return addr, true
		}
	}
	return netip.Addr{}, false
}
