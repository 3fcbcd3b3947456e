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
	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/service"
)

// A host may lose the rules of a load balancer and still list it (microsoft/wcnscripts#24); no listing shows that. So
// a few cluster IPs are connected to in each period, as a program of the node would do it:
//
//	it answers ───────────────────────────────────────────▶ fine
//	no answer twice ──▶ all backends answer when asked directly ──▶ its rule is lost: delete and create it
//	                └─▶ some do not ─────────────────────────────▶ nothing is known
//
// Whether Windows lets programs of the node reach load balancers with direct server return is unverified, no. 38. So
// nothing is concluded until one of the kind has answered, and one that was recreated in vain is not recreated again
// before it has answered. UDP has no answer to wait for: a load balancer of UDP is recreated with that of its
// service's TCP port.

// Bounds of probing.
const (
	// probesInTurn is how many services are probed in a round, beside DNS and the API service.
	probesInTurn = 5
	// probesAtOnce bounds the connections in flight in a round of all services, which follows a round in which two
	// were lost.
	probesAtOnce = 32
	// probedBackends bounds the backends of one service that are asked directly.
	probedBackends = 16
	// probeTimeout of one connection is above the 3 ms of a network and below the 3 s after which Windows sends a SYN
	// again.
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

// probing finds load balancers that are listed and do not work.
type probing struct {
	*session
	dial     func(context.Context, netip.AddrPort) error // nil: no probes
	observe  func(result string)                         // may be nil
	period   time.Duration
	pause    time.Duration // between two checks whether the repairs are done
	ready    func() bool
	consider func(*target)

	known   *known
	demand  *demand
	targets *targets
	work    *work
	report  *report

	running bool
	cursor  string // the service.Key after which the next round begins
	// reached: load balancers with (true) and without direct server return answer programs of the node.
	reached map[bool]bool
	history map[service.Key]*probeHistory
}

type probeHistory struct {
	answered bool      // since it was recreated last
	repaired time.Time // when it was recreated because of a probe
}

// probe is one cluster IP to ask.
type probe struct {
	key service.Key
	// balancer was there when the probe began: if it still is afterwards, nobody changed it meanwhile.
	balancer *balance.Balancer
	backends []service.Backend
	result   string
}

// schedule sets the alarm of the next round.
func (p *probing) schedule() {
	if p.dial != nil {
		p.work.at(time.Now().Add(p.period), func() { p.round(false); p.schedule() })
	}
}

// round asks some services, or all. It does nothing while there is work to do: what does not answer may be that work.
func (p *probing) round(all bool) {
	if p.running || p.known.away != nil || !p.ready() || len(p.work.queue) > 0 {
		return
	}
	list := p.choose(all)
	if len(list) == 0 {
		return
	}

	p.running = true
	go func() {
		ask(p.ctx, p.dial, list)
		select {
		case p.work.answers <- func() { p.finish(list, all) }:
		case <-p.ctx.Done():
		}
	}()
}

// choose returns DNS and the API service, and others in turn.
func (p *probing) choose(all bool) []probe {
	var first, others []*target
	for _, t := range p.targets.byKey {
		if !p.canProbe(t) {
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
		next, _ := slices.BinarySearchFunc(others, p.cursor, func(t *target, key string) int {
			if t.key.String() <= key {
				return -1
			}
			return 1
		})
		others = slices.Concat(others[next:], others[:next])[:probesInTurn]
		p.cursor = others[probesInTurn-1].key.String()
	}

	var list []probe
	for _, t := range append(first, others...) {
		list = append(list, probe{key: t.key, balancer: p.known.index.Serving(t.key), backends: t.f.Backends})
	}
	return list
}

func (p *probing) canProbe(t *target) bool {
	return t.f != nil && t.f.Kind == service.ClusterIP && t.key.Protocol == hns.TCP && t.done && t.phase == idle &&
		!t.doubted &&
		t.failure == nil && len(t.limits) == 0 && len(t.f.Backends) > 0 && p.known.index.Serving(t.key) != nil
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
			list[i].result = askOne(&list[i], answers)
		})
	}
	all.Wait()
}

// askOne finds out whether HNS serves a frontend that it lists. The frontend counts as lost only if it does not answer
// while a few of its backends do when they are asked directly; if a backend is silent too, the cause may be the
// backends.
func askOne(q *probe, answers func(netip.AddrPort) bool) (result string) {
	at := netip.AddrPortFrom(q.key.VIP, q.key.Port)
	if first := answers(at); first || answers(at) { // one lost packet does not count
		return ProbeAnswered
	}

	start := rand.IntN(len(q.backends))
	for n := range min(len(q.backends), probedBackends) {
		b := q.backends[(start+n)%len(q.backends)]
		if !answers(netip.AddrPortFrom(b.Addr, b.Port)) {
			return ProbeInconclusive
		}
	}
	if answers(at) { // its backends may just have come up
		return ProbeAnswered
	}
	return ProbeLost
}

// finish takes in the results of a round.
func (p *probing) finish(list []probe, all bool) {
	p.running = false
	if len(p.history) > 2*len(p.targets.byKey)+100 { // most are of services that are gone
		p.history = map[service.Key]*probeHistory{}
	}
	for i := range list {
		q := &list[i]
		if q.result == ProbeAnswered && q.balancer == p.known.index.Serving(q.key) {
			p.reached[q.balancer.Doc.DSR] = true
			p.historyOf(q.key).answered = true
		}
	}

	lost, recreated := 0, 0
	now := time.Now()
	for i := range list {
		q := &list[i]
		t := p.targets.at(q.key)
		if q.result == ProbeLost &&
			(t == nil || !p.canProbe(t) || q.balancer != p.known.index.Serving(q.key) || !p.mayRepair(q, now)) {
			q.result = ProbeInconclusive
		}
		if q.result == ProbeLost {
			history := p.historyOf(q.key)
			history.answered, history.repaired = false, now
			lost++
			recreated += p.recreate(t)
		}
		if p.observe != nil {
			p.observe(q.result)
		}
	}
	if lost == 0 {
		return
	}

	p.logger.Info("Load balancers are listed and do not work; they are created again", "count", recreated)
	p.report.to.Repaired("load balancer rule", recreated)
	p.report.begin()
	if lost >= 2 && !all {
		p.work.at(now, p.roundOfAll)
	}
}

// roundOfAll asks all services once the repairs of the round before are done.
func (p *probing) roundOfAll() {
	if p.work.busy() {
		p.work.at(time.Now().Add(p.pause), p.roundOfAll)
		return
	}
	p.round(true)
}

func (p *probing) historyOf(key service.Key) *probeHistory {
	history := p.history[key]
	if history == nil {
		history = &probeHistory{}
		p.history[key] = history
	}
	return history
}

// mayRepair reports whether a lost load balancer may be recreated: it answered before, or others of its kind do and it
// has not been recreated in vain.
func (p *probing) mayRepair(q *probe, now time.Time) bool {
	history := p.historyOf(q.key)
	if history.repaired.IsZero() {
		return history.answered || p.reached[q.balancer.Doc.DSR]
	}
	return history.answered && now.Sub(history.repaired) >= repairPause
}

// recreate has a load balancer deleted and created, and those of UDP with the same address and service. It returns how
// many.
func (p *probing) recreate(t *target) (n int) {
	again := func(t *target) {
		t.makeAnew()
		p.consider(t)
		n++
	}

	again(t)
	for _, key := range p.demand.services[t.service].keys {
		u := p.targets.at(key)
		if u != nil && key.Protocol == hns.UDP && key.VIP == t.key.VIP && u.f != nil && u.done &&
			u.service == t.service {
			again(u)
		}
	}
	return n
}
