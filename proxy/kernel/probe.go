package kernel

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/service"
)

// A host may lose the rules of a load balancer and still list it (microsoft/wcnscripts#24): no listing tells. So a few
// cluster IPs are connected to in each period, as a program of the node would do it:
//
//	it answers ──────────────────────────────────────────▶ fine
//	twice not ──▶ all of its backends answer when asked directly ──▶ its rule is lost: delete and create it
//	          └─▶ some do not ─────────────────────────────────────▶ nothing is known
//
// Whether Windows lets programs of the node reach load balancers with direct server return is unverified, so nothing is
// concluded until one of the kind has answered, and one that was created anew in vain is not created again before it has
// answered. UDP has no answer to wait for: a load balancer of UDP shares the fate of its service's TCP port.

// Bounds of probing.
const (
	// probesInTurn are connected to in a round, beside those of DNS and the API service.
	probesInTurn = 5
	// probesAtOnce are under way in a round of all, which follows one in which two were lost.
	probesAtOnce = 32
	// probedBackends of a service that does not answer are asked directly.
	probedBackends = 16
	// probeTimeout of one connection: above the 3 ms of a network and below the 3 s after which Windows sends a SYN again.
	probeTimeout = time.Second
	// repairPause is the least time between two repairs of one load balancer.
	repairPause = 5 * time.Minute
)

// Results of probes, for Options.Probed.
const (
	ProbeAnswered     = "answered"
	ProbeLost         = "lost"
	ProbeInconclusive = "inconclusive"
)

// probing is what is known from probes.
type probing struct {
	running bool
	cursor  string // the service.Key after which the next round begins
	// reached: load balancers with (true) and without direct server return answer programs of the node.
	reached map[bool]bool
	seen    map[service.Key]*probed
}

type probed struct {
	answered bool      // since it was created anew last
	repaired time.Time // created anew for a probe's sake
}

// probe is one cluster IP to ask.
type probe struct {
	key      service.Key
	was      *balancer // the same object afterwards: nobody has changed it meanwhile
	backends []service.Backend
	result   string
}

// probeLater sets the alarm of the next round.
func (p *Proxy) probeLater() {
	if p.opts.Dial != nil {
		p.at(time.Now().Add(p.opts.Period), func() { p.probeRound(false); p.probeLater() })
	}
}

// probeRound asks some, or all. While there is work to do, what does not answer may be that work.
func (p *Proxy) probeRound(all bool) {
	if p.probing.running || p.away != nil || !p.ready() || len(p.queue) > 0 {
		return
	}
	list := p.probes(all)
	if len(list) == 0 {
		return
	}
	p.probing.running = true
	dial, ctx := p.opts.Dial, p.ctx
	go func() {
		ask(ctx, dial, list)
		select {
		case p.results <- func() { p.probed(list, all) }:
		case <-ctx.Done():
		}
	}()
}

// probes chooses: DNS and the API service, and others in turn.
func (p *Proxy) probes(all bool) []probe {
	var first, others []*target
	for _, t := range p.targets {
		if !p.probeable(t) {
			continue
		}
		if t.rank.urgent() {
			first = append(first, t)
		} else {
			others = append(others, t)
		}
	}
	byKey := func(a, b *target) int { return cmp.Compare(a.key.String(), b.key.String()) }
	slices.SortFunc(first, byKey)
	slices.SortFunc(others, byKey)
	if !all && len(others) > probesInTurn {
		next, _ := slices.BinarySearchFunc(others, p.probing.cursor, func(t *target, key string) int {
			if t.key.String() <= key {
				return -1
			}
			return 1
		})
		others = slices.Concat(others[next:], others[:next])[:probesInTurn]
		p.probing.cursor = others[probesInTurn-1].key.String()
	}
	var list []probe
	for _, t := range append(first, others...) {
		list = append(list, probe{key: t.key, was: p.x.serving[t.key], backends: t.f.Backends})
	}
	return list
}

func (p *Proxy) probeable(t *target) bool {
	return t.f != nil && t.f.Kind == service.ClusterIP && t.key.Protocol == hns.TCP && t.done && t.phase == idle && !t.doubted &&
		t.trouble == nil && len(t.limits) == 0 && len(t.f.Backends) > 0 && p.x.serving[t.key] != nil
}

// ask connects, several at a time, and sets the results.
func ask(ctx context.Context, dial func(context.Context, netip.AddrPort) error, list []probe) {
	answers := func(at netip.AddrPort) bool {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		return dial(ctx, at) == nil
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, probesAtOnce)
	for i := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			q := &list[i]
			at := netip.AddrPortFrom(q.key.VIP, q.key.Port)
			if first := answers(at); first || answers(at) { // one lost packet is nothing
				q.result = ProbeAnswered
				return
			}
			q.result = ProbeLost
			start := rand.IntN(len(q.backends))
			for n := range min(len(q.backends), probedBackends) {
				b := q.backends[(start+n)%len(q.backends)]
				if !answers(netip.AddrPortFrom(b.Addr, b.Port)) {
					q.result = ProbeInconclusive
					return
				}
			}
			if answers(at) { // its backends may just have come up
				q.result = ProbeAnswered
			}
		})
	}
	all.Wait()
}

// probed takes the results of a round.
func (p *Proxy) probed(list []probe, all bool) {
	s := &p.probing
	s.running = false
	if len(s.seen) > 2*len(p.targets)+100 { // of services that are gone
		s.seen = map[service.Key]*probed{}
	}
	for i := range list {
		q := &list[i]
		if q.result == ProbeAnswered && q.was == p.x.serving[q.key] {
			s.reached[q.was.doc.DSR] = true
			s.of(q.key).answered = true
		}
	}
	lost := 0
	now := time.Now()
	for i := range list {
		q := &list[i]
		t := p.targets[q.key]
		if q.result == ProbeLost && (t == nil || !p.probeable(t) || q.was != p.x.serving[q.key] || !s.mayRepair(q, now)) {
			q.result = ProbeInconclusive
		}
		if q.result == ProbeLost {
			seen := s.of(q.key)
			seen.answered, seen.repaired = false, now
			lost += p.rewrite(t)
		}
		if p.opts.Probed != nil {
			p.opts.Probed(q.result)
		}
	}
	if lost == 0 {
		return
	}
	p.logger.Info("Load balancers are listed and do not work; they are created anew", "count", lost)
	p.opts.Reporter.Repaired("load balancer rule", lost)
	p.begin()
	if n := count(list, ProbeLost); n >= 2 && !all {
		p.at(now, func() { p.probeAll() })
	}
}

// probeAll waits for the repairs of the round that asked for it.
func (p *Proxy) probeAll() {
	if len(p.queue) > 0 || p.running > 0 {
		p.at(time.Now().Add(p.opts.RetryMin), func() { p.probeAll() })
		return
	}
	p.probeRound(true)
}

func count(list []probe, result string) (n int) {
	for i := range list {
		if list[i].result == result {
			n++
		}
	}
	return n
}

func (s *probing) of(key service.Key) *probed {
	seen := s.seen[key]
	if seen == nil {
		seen = &probed{}
		s.seen[key] = seen
	}
	return seen
}

// mayRepair: it did answer, or others of its kind do and it has not been created anew in vain.
func (s *probing) mayRepair(q *probe, now time.Time) bool {
	seen := s.of(q.key)
	if seen.repaired.IsZero() {
		return seen.answered || s.reached[q.was.doc.DSR]
	}
	return seen.answered && now.Sub(seen.repaired) >= repairPause
}

// rewrite has a load balancer created anew, and those of UDP with the same address and service.
func (p *Proxy) rewrite(t *target) (n int) {
	again := func(t *target) {
		t.rewrite = true
		p.consider(t)
		n++
	}
	again(t)
	for _, key := range p.offers[t.service].keys {
		if u := p.targets[key]; u != nil && key.Protocol == hns.UDP && key.VIP == t.key.VIP && u.f != nil && u.done && u.service == t.service {
			again(u)
		}
	}
	return n
}

// rewritten is the plan of a target that is right by all that is listed, and does not work.
func (p *Proxy) rewritten(t *target) verdict {
	b := p.x.serving[t.key]
	if b == nil || !p.view().mayChange(b) {
		t.rewrite = false
		return verdict{}
	}
	lb := b.doc
	lb.ID = lbID(t.key)
	for _, id := range b.endpoints {
		lb.Endpoints = append(lb.Endpoints, hns.EndpointID(id.String()))
	}
	return verdict{ops: []Op{{Verb: ReplaceLB, Old: hns.LoadBalancerID(b.id.String()), LB: lb, Key: t.key}}}
}
