package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"porthole.dev/porthole/hns"
)

// A survey has two steps: the ids of everything, one call per kind, and then the documents of what is not known yet, what is
// in doubt, and of a share of the rest in turn, so that each is read once in Options.ReadAll. The first survey knows nothing
// and so reads everything. Both steps run beside the loop; what we write meanwhile is left as we know it.
type survey struct {
	started time.Time
	deep    bool
	// touched by our own writes since the survey began.
	touched map[guid]bool
	// again: another one was asked for meanwhile.
	again, againDeep bool
	confirming       bool
	// outlines of all load balancers, if they were asked for and answered.
	outlines map[guid]uint64
}

// surveyed is what a step found.
type surveyed struct {
	err       error
	version   hns.Version
	network   hns.Network
	endpoints []guid
	balancers []guid
	outlines  map[guid]uint64
	// of them, those that were not known
	newEndpoints, newBalancers []guid
	// second step
	read      bool
	found     []held
	balancing []*balancer
	absent    []guid
}

// startSurvey begins one, or has the one that runs followed by another. A deep one reads every document.
func (p *Proxy) startSurvey(deep bool) {
	if p.survey != nil {
		p.survey.again = true
		p.survey.againDeep = p.survey.againDeep || deep
		return
	}
	p.begin()
	p.survey = &survey{started: time.Now(), deep: deep, touched: map[guid]bool{}, confirming: p.passed.doubted}
	version, network := p.facts.Version, p.facts.Network
	if p.away != nil || deep {
		version = hns.Version{} // HNS may be another one after it was away
	}
	// One out of turn looks for what is missing.
	outlining := len(p.x.balancers) > 0 && !deep && time.Since(p.observed) >= p.opts.Period/2
	go func() {
		s := p.ids(version, network, outlining)
		select {
		case p.surveyed <- s:
		case <-p.ctx.Done():
		}
	}()
}

func (p *Proxy) noteTouched(id guid) {
	if p.survey != nil {
		p.survey.touched[id] = true
	}
}

// ids is the first step. A known version is not asked again, a known network only by its id, except on overlay networks,
// whose document tells of other nodes' subnets. It reads nothing of p that changes.
func (p *Proxy) ids(version hns.Version, network hns.Network, outlining bool) (s surveyed) {
	host, ctx := p.opts.Host, p.ctx
	s.version, s.network = version, network
	if version == (hns.Version{}) {
		if s.version, s.err = host.Version(ctx); s.err != nil {
			return s
		}
	}
	if s.network, s.err = p.findNetwork(network); s.err != nil {
		return s
	}
	endpoints, err := host.EndpointIDs(ctx, s.network.ID)
	if err != nil {
		s.err = err
		return s
	}
	balancers, err := host.LoadBalancerIDs(ctx)
	if err != nil {
		s.err = err
		return s
	}
	for _, id := range endpoints {
		if g, ok := guidOf(id); ok {
			s.endpoints = append(s.endpoints, g)
		}
	}
	for _, id := range balancers {
		if g, ok := guidOf(id); ok {
			s.balancers = append(s.balancers, g)
		}
	}
	if outlining {
		s.outlines = p.askOutlines()
	}
	return s
}

func (p *Proxy) findNetwork(known hns.Network) (hns.Network, error) {
	host, ctx := p.opts.Host, p.ctx
	if known.ID != "" && known.Type != hns.Overlay {
		ids, err := host.NetworkIDs(ctx, p.opts.NetworkName)
		if err != nil || slices.Contains(ids, known.ID) {
			return known, err
		}
	}
	network, err := host.NetworkByName(ctx, p.opts.NetworkName)
	if hns.IsAbsent(err) {
		return network, fmt.Errorf("waiting for the HNS network %q: %w", p.opts.NetworkName, err)
	}
	return network, err
}

// surveyDone takes what a step found.
func (p *Proxy) surveyDone(s surveyed) {
	if s.err != nil {
		p.surveyFailed(s.err)
		return
	}
	if s.read {
		p.mergeRead(&s)
		p.surveyEnds()
		return
	}
	if err := p.doubt(&s); err != nil {
		p.surveyFailed(err)
		return
	}
	p.newFacts(&s)
	lost := p.mergeIDs(&s)
	endpoints, balancers := p.toRead(&s)
	for kind, n := range lost {
		if n > 0 {
			p.logger.Info("Objects are gone that we did not delete", "kind", kind, "count", n)
			p.opts.Reporter.Repaired(kind, n)
		}
	}
	if len(endpoints)+len(balancers) == 0 {
		p.surveyEnds()
		return
	}
	go func() {
		read := p.read(endpoints, balancers)
		select {
		case p.surveyed <- read:
		case <-p.ctx.Done():
		}
	}()
}

// doubt: HNS that is starting lists nothing for a while. One such answer is not believed.
func (p *Proxy) doubt(s *surveyed) error {
	if s.network.ID != p.facts.Network.ID {
		return nil
	}
	busy := p.inFlight()
	empty := len(s.endpoints) == 0 && known(p, p.x.endpoints, busy) || len(s.balancers) == 0 && known(p, p.x.balancers, busy)
	if !empty || p.survey.confirming {
		p.passed.doubted = false
		return nil
	}
	p.passed.doubted = true
	return fmt.Errorf("HNS lists %d endpoints and %d load balancers where there were %d and %d: asking again",
		len(s.endpoints), len(s.balancers), len(p.x.endpoints), len(p.x.balancers))
}

// known says whether there is an object that was there before the survey began.
func known[T any](p *Proxy, objects map[guid]T, busy map[guid]bool) bool {
	for id := range objects {
		if !p.survey.touched[id] && !busy[id] {
			return true
		}
	}
	return false
}

// HNS that cannot be observed is asked this often, one call each: a service that restarts is back within seconds, and DNS
// shall be right within the second after that. After ten seconds it is asked once a second.
const (
	awayWait  = 250 * time.Millisecond
	awayOften = 40
)

// surveyFailed: nothing is known, and nothing is written until something is.
func (p *Proxy) surveyFailed(err error) {
	if p.away == nil || p.passed.attempts == 0 {
		p.logger.Error(err, "HNS cannot be observed; trying again")
	}
	p.away = err
	p.survey = nil
	p.passed.attempts++
	p.passed.failed = true
	wait := awayWait
	if p.passed.attempts > awayOften && !p.passed.doubted {
		wait = time.Second
	}
	p.at(time.Now().Add(wait), func() {
		if p.away != nil {
			p.startSurvey(false)
		}
	})
}

// newFacts takes version and network, and derives again what depends on them.
func (p *Proxy) newFacts(s *surveyed) {
	old := p.facts
	defer func() {
		if !sameFacts(&old, &p.facts) {
			p.checked = 0
		}
	}()
	p.facts.Version, p.facts.Network = s.version, s.network
	p.facts.DSR, p.facts.HostMAC, p.facts.NodeAccess = p.opts.EnableDSR, p.opts.HostMAC, !p.opts.NoNodeAccess
	if old.Version != s.version {
		p.facts.ModifyLies = false
	}
	var told bool
	if p.facts.NodeAddrs, told = p.nodeAddrs(&s.network); told {
		p.nodeAwaited = false
	}
	if old.Network.ID != s.network.ID {
		p.logger.Info("Using network", "network", s.network.Name, "id", s.network.ID, "hns", s.version)
		p.x = newIndex()
		p.supplies = map[netip.Addr]*supply{}
		p.facts.SourceVIP = netip.Addr{}
		for _, t := range p.targets {
			if t.phase == waiting {
				t.phase = idle
			}
		}
	}
	if p.facts.overlay() && !p.facts.SourceVIP.IsValid() {
		p.facts.SourceVIP = p.opts.SourceVIP
		if !p.facts.SourceVIP.IsValid() {
			p.adoptSource()
		}
	}
	if !slices.Equal(old.NodeAddrs, p.facts.NodeAddrs) {
		p.reoffer()
	}
}

func sameFacts(a, b *Facts) bool {
	return a.Version == b.Version && a.Network.ID == b.Network.ID && a.SourceVIP == b.SourceVIP && a.ModifyLies == b.ModifyLies &&
		a.Network.Management == b.Network.Management && slices.Equal(a.Network.RemoteSubnets, b.Network.RemoteSubnets) &&
		slices.Equal(a.Network.Subnets, b.Network.Subnets)
}

// adoptSource takes the source address that is there already from an earlier run, else a free one.
func (p *Proxy) adoptSource() {
	for _, s := range p.facts.Network.Subnets {
		if s.Prefix.Addr().Is4() {
			p.facts.SourceVIP, _ = p.freeAddress(s)
			return
		}
	}
}

// mergeIDs drops what is listed no more, and counts what we did not drop ourselves. What is listed and not known is left in
// the lists.
func (p *Proxy) mergeIDs(s *surveyed) map[string]int {
	lost := map[string]int{}
	busy := p.inFlight()
	round := p.x.round()
	for _, id := range s.endpoints {
		if e := p.x.endpoints[id]; e != nil {
			e.round = round
		} else {
			s.newEndpoints = append(s.newEndpoints, id)
		}
	}
	for id, e := range p.x.endpoints {
		if e.round == round || p.survey.touched[id] || busy[id] {
			continue
		}
		if e.ours {
			lost["endpoint"]++
		}
		p.x.dropEndpoint(id)
	}
	for _, id := range s.balancers {
		if b := p.x.balancers[id]; b != nil {
			b.round = round
		} else {
			s.newBalancers = append(s.newBalancers, id)
		}
	}
	for id, b := range p.x.balancers {
		if b.round == round || p.survey.touched[id] || busy[id] {
			continue
		}
		for _, key := range keysOf(b.doc) {
			if t := p.targets[key]; t != nil && t.f != nil {
				lost["load balancer"]++
			}
		}
		p.x.dropBalancer(id)
	}
	return lost
}

// inFlight are the objects that a call is changing right now.
func (p *Proxy) inFlight() map[guid]bool {
	busy := map[guid]bool{}
	for _, s := range p.supplies {
		if s.phase == running {
			id, _ := guidOf(endpointID(p.facts.Network.ID, s.addr))
			busy[id], busy[s.delete] = true, true
		}
	}
	if p.running == 0 {
		return busy
	}
	note := func(t *target) {
		if t.phase == running {
			id, _ := guidOf(lbID(t.key))
			busy[id], busy[t.litter] = true, true
			if b := p.x.serving[t.key]; b != nil {
				busy[b.id] = true
			}
		}
	}
	for _, t := range p.targets {
		note(t)
	}
	for _, t := range p.litter {
		note(t)
	}
	return busy
}

// surveyEnds: HNS is known. Everything is compared with it.
func (p *Proxy) surveyEnds() {
	s := p.survey
	p.survey = nil
	if p.away != nil && p.passed.attempts > 0 {
		p.logger.Info("HNS is observed again", "attempts", p.passed.attempts)
	}
	p.away, p.passed.attempts, p.suspicions = nil, 0, 0
	p.observed = s.started
	p.passed.full = true
	for t := range p.troubled {
		missing := t.trouble.reason == "PodUnknown"
		if t.trouble.survey || t.trouble.class == hns.Unknown || missing && !p.stillMissing(t) {
			t.trouble.survey = false
			t.trouble.next = time.Time{}
		}
	}
	p.findHost()
	p.everything()
	if s.again {
		p.startSurvey(s.againDeep)
	}
	next := p.observed.Add(p.opts.Period)
	if again := time.Now().Add(halfAgain); len(p.x.vague()) > 0 && again.Before(next) {
		next = again
	}
	p.at(next, func() {
		if p.survey == nil && p.away == nil && !p.observed.After(s.started) {
			p.startSurvey(false)
		}
	})
}

func (p *Proxy) stillMissing(t *target) bool {
	v := p.plan(t)
	return v.missingLocal
}
