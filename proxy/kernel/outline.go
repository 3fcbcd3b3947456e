package kernel

import "porthole.dev/porthole/proxy/balance"

// A listing of ids does not show that another program altered a load balancer, and reading each document takes a call
// for each. But one call of HNS's first interface gives a fingerprint of all of them (hns.LoadBalancer.Outline). If an
// outline is not what the document implies, the document is read and decides; the outline is then accepted for it. So
// nothing but a few calls depends on how Windows fills that listing in, which is unverified, no. 32. What it does not
// show, or where there is no such call, is found when the document is read in turn.

// outlinesRead bounds the documents that are read in one full check because of their outlines.
const outlinesRead = 64

// changedOutlines returns the load balancers whose outlines are neither as their documents imply nor accepted.
func (s *fullChecks) changedOutlines(listed *step, busy map[balance.GUID]bool) (ids []balance.GUID) {
	s.running.outlines = listed.outlines
	if listed.outlinesErr != nil {
		s.logger.V(2).Info("HNS gives no outlines of its load balancers; their documents are read in turn", "err",
			listed.outlinesErr)
	}
	if len(listed.outlines) == 0 {
		return nil
	}

	for b := range s.outlines {
		if s.known.index.Balancer(b.ID) != b {
			delete(s.outlines, b)
		}
	}

	ours := s.isOurs(busy)
	for id, outline := range listed.outlines {
		b := s.known.index.Balancer(id)
		if b == nil || outline == b.Outline || ours(id) {
			continue
		}
		if accepted, ok := s.outlines[b]; ok && accepted == outline {
			continue
		}
		if ids = append(ids, id); len(ids) == outlinesRead {
			break
		}
	}
	return ids
}

// acceptOutline accepts the outline of a document that was just read.
func (s *fullChecks) acceptOutline(id balance.GUID) {
	b := s.known.index.Balancer(id)
	if outline, ok := s.running.outlines[id]; ok && b != nil && outline != b.Outline {
		s.outlines[b] = outline
	}
}
