package kernel

import (
	"fmt"
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
)

// A fullCheck finds out what HNS has, in two steps: the ids of everything, one call per kind, and then the documents
// of what is not known yet, what is in doubt, and of a share of the rest in turn, so that each is read once in
// Options.ReadAll. The first full check knows nothing and so reads everything. Both steps run beside the loop. What we
// write meanwhile is left as we know it.
type fullCheck struct {
	started time.Time
	// deep: every document is read.
	deep bool
	// again: another full check was asked for meanwhile.
	again, againDeep bool
	// confirming: the full check before answered that everything is gone.
	confirming bool
	outlines   map[balance.GUID]uint64
}

// fullChecks starts full checks, one at a time, and keeps what they need from one to the next.
type fullChecks struct {
	*session
	lister lister
	known  *known
	work   *work
	report *report

	period, readAll time.Duration

	running *fullCheck // nil: none
	steps   chan step
	// attempts counts the full checks in a row that failed. doubted: the last one answered that everything is gone.
	attempts int
	doubted  bool
	// notifySet: an alarm will start a full check because HNS notified.
	notifySet bool
	// rolling is what is still to be read in turn.
	rolling []balance.GUID
	// outlines are those that differ from what a document implies and are accepted: the document was read and is as we
	// know it.
	outlines map[*balance.Balancer]uint64
}

// A document without addresses is read again this soon.
const incompleteAgain = time.Second

// start begins a full check, or has the one that runs followed by another. A deep one reads every document.
func (s *fullChecks) start(deep bool) {
	if s.running != nil {
		s.running.again = true
		s.running.againDeep = s.running.againDeep || deep
		return
	}

	s.report.begin()
	s.running = &fullCheck{started: time.Now(), deep: deep, confirming: s.doubted}
	s.known.written = map[balance.GUID]bool{}
	version := s.known.facts.Version
	network := s.known.facts.Network
	if s.known.away != nil || deep {
		version = hns.Version{} // HNS may be another one after it was away
	}
	// A full check out of turn looks for what is missing, and needs no outlines.
	_, balancers := s.known.index.Len()
	withOutlines := balancers > 0 && !deep && time.Since(s.known.observed) >= s.period/2
	s.step(func() step { return s.lister.list(s.ctx, version, network, withOutlines) })
}

// step makes calls beside the loop and sends the loop the answer.
func (s *fullChecks) step(ask func() step) {
	go func() {
		answer := ask()
		select {
		case s.steps <- answer:
		case <-s.ctx.Done():
		}
	}()
}

// noteAnswer notes whether HNS answered a call. After three calls in a row without an answer, HNS counts as away:
// nothing more is asked of it but whether it is there.
func (s *fullChecks) noteAnswer(err error) {
	if hns.ClassOf(err) != hns.Unknown {
		s.known.unanswered = 0
		return
	}
	if s.known.unanswered++; s.known.unanswered >= 3 && s.known.away == nil {
		s.known.away = err
		s.start(false)
	}
}

// notified starts a full check because HNS reported a change, at most once a second: the change may be one of ours.
func (s *fullChecks) notified() {
	const least = time.Second
	if s.running == nil && time.Since(s.known.observed) >= least {
		s.start(false)
		return
	}
	if !s.notifySet {
		s.notifySet = true
		s.work.at(time.Now().Add(least), func() {
			s.notifySet = false
			s.start(false)
		})
	}
}

// isOurs reports whether an object is left as we know it, because we wrote it since the full check began or a call is
// changing it.
func (s *fullChecks) isOurs(busy map[balance.GUID]bool) func(balance.GUID) bool {
	return func(id balance.GUID) bool { return s.known.written[id] || busy[id] }
}

// checkEmpty returns an error if HNS lists nothing where there was something: HNS that is starting lists nothing for a
// while. One such answer is not believed, the next one is.
func (s *fullChecks) checkEmpty(listed *step, busy map[balance.GUID]bool) error {
	if listed.network.ID != s.known.facts.Network.ID {
		return nil
	}
	index, ours := s.known.index, s.isOurs(busy)
	empty := len(listed.endpoints) == 0 && index.HasEndpointBut(ours) ||
		len(listed.balancers) == 0 && index.HasBalancerBut(ours)
	if !empty || s.running.confirming {
		s.doubted = false
		return nil
	}

	s.doubted = true
	endpoints, balancers := index.Len()
	return fmt.Errorf("HNS lists %d endpoints and %d load balancers where there were %d and %d: asking again",
		len(listed.endpoints), len(listed.balancers), endpoints, balancers)
}

// HNS that cannot be observed is asked every awayWait, with one call: a service that restarts is back within seconds,
// and DNS shall be right within the second after that. After awayOften attempts (ten seconds) it is asked once a
// second.
const (
	awayWait  = 250 * time.Millisecond
	awayOften = 40
)

// failed ends a full check without a result. Nothing is written until one succeeds.
func (s *fullChecks) failed(err error) {
	if s.known.away == nil || s.attempts == 0 {
		s.logger.Error(err, "HNS cannot be observed; trying again")
	}
	s.known.away = err
	s.running, s.known.written = nil, nil
	s.attempts++

	wait := awayWait
	if s.attempts > awayOften && !s.doubted {
		wait = time.Second
	}
	s.work.at(time.Now().Add(wait), func() {
		if s.known.away != nil {
			s.start(false)
		}
	})
}

// succeeded ends a full check, and returns it.
func (s *fullChecks) succeeded() *fullCheck {
	done := s.running
	if s.known.away != nil && s.attempts > 0 {
		s.logger.Info("HNS is observed again", "attempts", s.attempts)
	}
	s.running, s.known.written = nil, nil
	s.attempts = 0
	s.known.away, s.known.unanswered = nil, 0
	s.known.observed = done.started
	s.report.full = true
	return done
}

// scheduleAfter starts the full check that was asked for during the last one, and sets the alarm for the next regular
// one.
func (s *fullChecks) scheduleAfter(last *fullCheck) {
	if last.again {
		s.start(last.againDeep)
	}

	next := s.known.observed.Add(s.period)
	if again := time.Now().Add(incompleteAgain); len(s.known.index.Incomplete()) > 0 && again.Before(next) {
		next = again
	}
	s.work.at(next, func() {
		if s.running == nil && s.known.away == nil && !s.known.observed.After(last.started) {
			s.start(false)
		}
	})
}

// match drops from the index what is not listed. It returns the listed ids that are not known, and what was lost: how
// many of our endpoints, and the load balancers.
func (s *fullChecks) match(listed *step, busy map[balance.GUID]bool) (unknown objectIDs, endpoints int,
	balancers []*balance.Balancer) {
	ours := s.isOurs(busy)
	unknown.endpoints, endpoints = s.known.index.MatchEndpoints(listed.endpoints, ours)
	unknown.balancers, balancers = s.known.index.MatchBalancers(listed.balancers, ours)
	return unknown, endpoints, balancers
}

// toRead chooses the documents to read: unknown ones and those in doubt, or a share of the others in turn.
func (s *fullChecks) toRead(listed *step, unknown objectIDs, busy map[balance.GUID]bool) (read objectIDs) {
	if s.running.deep {
		return listed.objectIDs
	}
	index := s.known.index
	read.endpoints = append(unknown.endpoints, index.Incomplete()...)
	read.balancers = append(unknown.balancers, s.changedOutlines(listed, busy)...)
	if !read.empty() {
		return read // enough for now
	}
	if time.Since(s.known.observed) < s.period/2 {
		return read // this full check is out of turn
	}

	all := int64(len(listed.endpoints) + len(listed.balancers))
	share := int((all*int64(s.period) + int64(s.readAll) - 1) / int64(s.readAll))
	chosen := make(map[balance.GUID]bool, min(share, 64))
	for range share {
		if len(s.rolling) == 0 {
			s.rolling = append(append(s.rolling, listed.balancers...), listed.endpoints...)
		}
		id := s.rolling[0]
		s.rolling = s.rolling[1:]
		switch {
		case chosen[id]:
		case index.Balancer(id) != nil:
			read.balancers = append(read.balancers, id)
			chosen[id] = true
		case index.Endpoint(id) != nil:
			read.endpoints = append(read.endpoints, id)
			chosen[id] = true
		}
	}
	return read
}

// merge takes documents into the index. It returns the load balancers that another program altered, as they were
// before.
func (s *fullChecks) merge(read *step, busy map[balance.GUID]bool) (altered []*balance.Balancer) {
	index, ours := s.known.index, s.isOurs(busy)
	for _, id := range read.gone {
		if !ours(id) {
			index.DropEndpoint(id)
			index.DropBalancer(id)
		}
	}

	now := time.Now()
	for _, e := range read.endpointsRead {
		if !ours(e.ID) {
			index.ReadEndpoint(e, now)
		}
	}
	for _, b := range read.balancersRead {
		if ours(b.ID) {
			continue
		}
		if old := index.Balancer(b.ID); old != nil && !old.Same(b) {
			altered = append(altered, old)
		}
		index.PutBalancer(b)
		s.acceptOutline(b.ID)
	}
	return altered
}
