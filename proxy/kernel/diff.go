package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"porthole.dev/porthole/proxy/balance"
	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// Difference is what separates HNS from what is wanted, with what the proxy knows of the frontends.
type Difference struct {
	balance.Changes
	about map[service.Key]about
}

// about is what the proxy knows of a frontend besides its plan.
type about struct {
	service string
	// failure is why the last attempt failed, "" if it did not; since is when the streak of failures began.
	failure string
	since   time.Time
}

// wantedNow is what the loop wants at the moment.
type wantedNow struct {
	wanted balance.Wanted
	about  map[service.Key]about
	facts  balance.Facts
	err    error
}

// Diff lists HNS and returns what separates it from what is wanted. It changes nothing. It needs Run, beside which it
// runs.
func (p *Proxy) Diff(ctx context.Context) (Difference, error) {
	answer := make(chan wantedNow, 1)
	select {
	case p.asked <- func() { answer <- p.wantedNow() }:
	case <-ctx.Done():
		return Difference{}, fmt.Errorf("asking the proxy what is wanted: %w", ctx.Err())
	}
	now := <-answer
	if now.err != nil {
		return Difference{}, now.err
	}

	listed, err := p.checks.lister.everything(ctx, now.facts.Network.ID)
	if err != nil {
		return Difference{}, err
	}
	planner := balance.Planner{Index: balance.IndexOf(listed), Facts: &now.facts}
	return Difference{Changes: planner.Diff(now.wanted), about: now.about}, nil
}

// wantedNow copies what the loop wants. It runs in the loop's goroutine, and Diff goes on with the copy in its own.
// The error is set as long as there is nothing that the host could be compared with.
func (p *Proxy) wantedNow() wantedNow {
	now := wantedNow{about: make(map[service.Key]about, len(p.targets.byKey)), facts: p.known.facts}
	switch {
	case !p.demand.complete:
		now.err = errors.New("the services have not all arrived yet")
	case p.known.observed.IsZero():
		now.err = fmt.Errorf("HNS has not been observed yet: %v", p.known.away)
	}

	now.wanted = p.targets.wanted()
	for key, t := range p.targets.byKey {
		a := about{service: t.service}
		if t.failure != nil {
			a.failure, a.since = t.failure.Text, t.failure.since
		}
		now.about[key] = a
	}
	return now
}

// Document returns the difference as /diff shows it.
func (d Difference) Document() health.Diff {
	out := health.Diff{Right: d.Right, Equal: len(d.Ops) == 0 && len(d.Problems) == 0}
	line := func(key service.Key, text string) health.DiffLine {
		l := health.DiffLine{Text: text}
		if key.Port != 0 { // endpoints that nothing uses are deleted for no frontend
			about := d.about[key]
			l.Frontend = key.String()
			l.Service = about.service
			l.Problem = about.failure
			l.Since = about.since.UTC()
		}
		return l
	}

	for _, op := range d.Ops {
		l := line(op.Key, op.String())
		l.Verb = string(op.Verb)
		out.Operations = append(out.Operations, l)
	}
	for key, problem := range d.Problems {
		out.Problems = append(out.Problems, line(key, problem.Text))
	}
	slices.SortFunc(out.Problems, func(a, b health.DiffLine) int { return cmp.Compare(a.Frontend, b.Frontend) })
	return out
}
