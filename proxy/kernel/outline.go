package kernel

// A listing of ids does not tell that somebody altered a load balancer, and reading each document takes a call for each. But
// one call of HNS's first interface tells most of all of them (hns.LoadBalancer.Outline). An outline that is not what the
// document implies has the document read, which decides; the outline is then accepted for it. So nothing but a few calls
// depends on how Windows fills that listing in, which is unverified. What it does not tell, or where there is no such call,
// is found when the document is read in turn.

// outlinesRead bounds the documents that are read in a survey because of their outlines.
const outlinesRead = 64

// askOutlines gives none where HNS does not tell any. It reads nothing of p that changes.
func (p *Proxy) askOutlines() map[guid]uint64 {
	listed, err := p.opts.Host.LoadBalancerOutlines(p.ctx)
	if err != nil {
		p.logger.V(2).Info("HNS does not list what its load balancers are; their documents are read in turn", "err", err)
		return nil
	}
	out := make(map[guid]uint64, len(listed))
	for id, outline := range listed {
		if g, ok := guidOf(id); ok {
			out[g] = outline
		}
	}
	return out
}

// redrawn are the load balancers whose outlines are neither as their documents imply nor accepted.
func (p *Proxy) redrawn(s *surveyed) (ids []guid) {
	p.survey.outlines = s.outlines
	if len(s.outlines) == 0 {
		return nil
	}
	for b := range p.outlines {
		if p.x.balancers[b.id] != b {
			delete(p.outlines, b)
		}
	}
	busy := p.inFlight()
	for id, outline := range s.outlines {
		b := p.x.balancers[id]
		if b == nil || outline == b.outline || p.survey.touched[id] || busy[id] {
			continue
		}
		if accepted, ok := p.outlines[b]; ok && accepted == outline {
			continue
		}
		if ids = append(ids, id); len(ids) == outlinesRead {
			break
		}
	}
	return ids
}

// accept notes the outline of a document that was just read.
func (p *Proxy) accept(id guid) {
	b := p.x.balancers[id]
	if outline, ok := p.survey.outlines[id]; ok && b != nil && outline != b.outline {
		p.outlines[b] = outline
	}
}
