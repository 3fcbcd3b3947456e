package kernel

import (
	"context"
	"errors"
	"sync"
	"time"

	"porthole.dev/porthole/hns"
)

// toRead chooses the documents to read: unknown ones, and a share of the others in turn.
func (p *Proxy) toRead(s *surveyed) (endpoints, balancers []guid) {
	kind := make(map[guid]bool, 64) // true: an endpoint
	if p.survey.deep {
		return s.endpoints, s.balancers
	}
	endpoints, balancers = append(s.newEndpoints, p.x.vague()...), append(s.newBalancers, p.redrawn(s)...)
	if len(endpoints)+len(balancers) > 0 {
		return endpoints, balancers // enough for now
	}
	share := int((int64(len(s.endpoints)+len(s.balancers))*int64(p.opts.Period) + int64(p.opts.ReadAll) - 1) / int64(p.opts.ReadAll))
	if time.Since(p.observed) < p.opts.Period/2 {
		share = 0 // this one is out of turn
	}
	for range share {
		if len(p.rolling) == 0 {
			p.rolling = append(append(p.rolling, s.balancers...), s.endpoints...)
		}
		id := p.rolling[0]
		p.rolling = p.rolling[1:]
		switch _, twice := kind[id]; {
		case twice:
		case p.x.balancers[id] != nil:
			balancers, kind[id] = append(balancers, id), false
		case p.x.endpoints[id] != nil:
			endpoints, kind[id] = append(endpoints, id), true
		}
	}
	return endpoints, balancers
}

// read is the second step: documents, several at a time. An object that is gone is no failure; one that HNS cannot give
// after three attempts is one, but what was read is kept.
func (p *Proxy) read(endpoints, balancers []guid) surveyed {
	out := surveyed{read: true}
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan func(context.Context) error)
	for range p.opts.Readers {
		wg.Go(func() {
			for f := range work {
				err := f(p.ctx)
				for range 2 {
					if hns.ClassOf(err) == hns.Unknown {
						err = f(p.ctx)
					}
				}
				if err != nil {
					mu.Lock()
					out.err = errors.Join(errors.New("reading what HNS listed"), err)
					mu.Unlock()
				}
			}
		})
	}
	take := func(id guid, err error, put func()) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			put()
		case hns.IsAbsent(err):
			out.absent = append(out.absent, id)
		default:
			return err
		}
		return nil
	}
	for _, id := range balancers { // first: what is served matters more
		work <- func(ctx context.Context) error {
			lb, err := p.opts.Host.LoadBalancer(ctx, hns.LoadBalancerID(id.String()))
			return take(id, err, func() {
				if b, ok := compactBalancer(lb); ok {
					out.balancing = append(out.balancing, b)
				}
			})
		}
	}
	for _, id := range endpoints {
		work <- func(ctx context.Context) error {
			e, err := p.opts.Host.Endpoint(ctx, hns.EndpointID(id.String()))
			return take(id, err, func() {
				if h, ok := compactEndpoint(e); ok {
					out.found = append(out.found, h)
				}
			})
		}
	}
	close(work)
	wg.Wait()
	return out
}

// mergeRead takes documents into the index.
func (p *Proxy) mergeRead(s *surveyed) {
	busy := p.inFlight()
	skip := func(id guid) bool { return p.survey.touched[id] || busy[id] }
	altered := 0
	for _, id := range s.absent {
		if !skip(id) {
			p.x.dropEndpoint(id)
			p.x.dropBalancer(id)
		}
	}
	for _, h := range s.found {
		if !skip(h.id) {
			p.x.readEndpoint(h, time.Now())
		}
	}
	for _, b := range s.balancing {
		if skip(b.id) {
			continue
		}
		if old := p.x.balancers[b.id]; old != nil && !alike(old, b) {
			altered++
			for _, key := range keysOf(old.doc) {
				if t := p.targets[key]; t != nil {
					t.doubted = true // read once more before anything is done about it: HNS may have answered nonsense
				}
			}
		}
		p.x.putBalancer(b)
		p.accept(b.id)
	}
	if altered > 0 {
		p.logger.Info("Load balancers are other than we left them", "count", altered)
		p.opts.Reporter.Repaired("load balancer", altered)
	}
}
