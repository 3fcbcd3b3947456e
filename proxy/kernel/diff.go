package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"porthole.dev/porthole/proxy/health"
	"porthole.dev/porthole/proxy/service"
)

// About is what the proxy knows of a frontend besides its plan.
type About struct {
	Service string
	// Trouble is why the last attempt failed and Since when the first of its run did; "" when none did.
	Trouble string
	Since   time.Time
}

// Diff lists HNS anew and says what separates it from what is wanted. It changes nothing and may run beside Run, which it
// needs.
func (p *Proxy) Diff(ctx context.Context) (Changes, error) {
	type wanted struct {
		frontends []frontendOf
		about     map[service.Key]About
		facts     Facts
		err       error
	}
	answer := make(chan wanted, 1)
	ask := func() {
		w := wanted{about: make(map[service.Key]About, len(p.targets)), facts: p.facts}
		switch {
		case !p.complete:
			w.err = errors.New("the services have not all arrived yet")
		case p.observed.IsZero():
			w.err = fmt.Errorf("HNS has not been observed yet: %v", p.away)
		}
		for key, t := range p.targets {
			if t.f != nil {
				w.frontends = append(w.frontends, frontendOf{t.rank, *t.f})
			}
			a := About{Service: t.service}
			if t.trouble != nil {
				a.Trouble, a.Since = t.trouble.text, t.trouble.since
			}
			w.about[key] = a
		}
		answer <- w
	}
	select {
	case p.asked <- ask:
	case <-ctx.Done():
		return Changes{}, fmt.Errorf("asking the proxy what is wanted: %w", ctx.Err())
	}
	w := <-answer
	if w.err != nil {
		return Changes{}, w.err
	}
	listed, err := p.list(ctx, w.facts.Network.ID)
	if err != nil {
		return Changes{}, err
	}
	changes := Plan(ordered(w.frontends), listed, w.facts)
	changes.About = w.about
	return changes, nil
}

// Document is the plan as /diff shows it.
func (c Changes) Document() health.Diff {
	d := health.Diff{Right: c.Right, Equal: len(c.Ops) == 0 && len(c.Problems) == 0}
	line := func(key service.Key, text string) health.DiffLine {
		l := health.DiffLine{Text: text}
		if key.Port != 0 { // endpoints that nobody uses are deleted for no frontend
			about := c.About[key]
			l.Frontend, l.Service, l.Trouble, l.Since = key.String(), about.Service, about.Trouble, about.Since.UTC()
		}
		return l
	}
	for _, op := range c.Ops {
		l := line(op.Key, op.String())
		l.Verb = string(op.Verb)
		d.Operations = append(d.Operations, l)
	}
	for key, problem := range c.Problems {
		d.Problems = append(d.Problems, line(key, problem))
	}
	slices.SortFunc(d.Problems, func(a, b health.DiffLine) int { return cmp.Compare(a.Frontend, b.Frontend) })
	return d
}
