package serve

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/desired"
	"porthole.dev/porthole/emulator/hnsd"
)

// LoseRequest names objects that HNS loses without a trace in any call. Count, Percent, or neither for all.
type LoseRequest struct {
	Kind    string  `json:"kind"` // LoadBalancer, Endpoint, RemoteEndpoint, LocalEndpoint, Network, Namespace, SdnRoute
	Count   int     `json:"count,omitempty"`
	Percent float64 `json:"percent,omitempty"` // spread evenly over the objects in the order of their creation
	Match   string  `json:"match,omitempty"`   // regular expression in their documents
	// PlaneOnly: the objects stay listed, but their packets are not carried any more, until somebody changes the
	// object, or POST /repair.
	PlaneOnly bool `json:"planeOnly,omitempty"`
	// Renew puts a network of the same document in place of each that is lost, under a new id: as after a host's
	// reboot.
	Renew bool `json:"renew,omitempty"`
}

// lose carries out a request and gives the ids of what was lost.
func (s *Service) lose(ctx context.Context, q LoseRequest) ([]string, error) {
	if !slices.ContainsFunc(hnsd.KindNames(), func(n string) bool { return strings.EqualFold(n, q.Kind) }) {
		return nil, fmt.Errorf("no kind %q: there are %s", q.Kind, strings.Join(hnsd.KindNames(), ", "))
	}
	if q.Renew && (!strings.EqualFold(q.Kind, "Network") || q.PlaneOnly) {
		return nil, fmt.Errorf("only networks are renewed")
	}
	pattern, err := regexp.Compile(q.Match)
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	chosen := map[string]bool{}
	ids := []string{}
	err = s.loseChosen(ctx, q, func(state *hnsd.State) func(*hnsd.Object) bool {
		for _, id := range choose(state, q, pattern) {
			chosen[id] = true
			ids = append(ids, id)
		}
		return func(o *hnsd.Object) bool { return chosen[o.ID] }
	})
	return ids, err
}

// loseChosen chooses and loses in one write, so that no call comes between the two.
func (s *Service) loseChosen(ctx context.Context, q LoseRequest,
	choose func(*hnsd.State) func(*hnsd.Object) bool) error {
	if !q.PlaneOnly {
		return s.writeWithoutNotifying(ctx, func(state *hnsd.State) (*hnsd.State, error) {
			next, _, err := s.host.Lose(state, choose(state), q.Renew)
			return next, err
		})
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	state := s.state.Load()
	hidden := choose(state)
	for o := range state.Everything() {
		if hidden(o) {
			s.planeLost[o.ID] = true
		}
	}
	if err := s.saveLoss(); err != nil {
		return err
	}
	return s.reapply(ctx)
}

// choose gives the ids that a request means.
func choose(state *hnsd.State, q LoseRequest, pattern *regexp.Regexp) []string {
	var candidates []string
	for o := range state.Everything() {
		if o.Is(q.Kind) && !o.HostDefault() && (q.Match == "" || pattern.MatchString(o.Doc.String())) {
			candidates = append(candidates, o.ID)
		}
	}
	var ids []string
	for i, id := range candidates {
		if q.Percent > 0 && int(float64(i+1)*q.Percent/100) == int(float64(i)*q.Percent/100) {
			continue
		}
		if q.Count > 0 && len(ids) == q.Count {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// forget drops what is chosen, and gives the number.
func (s *Service) forget(ctx context.Context, chosen func(*hnsd.Object) bool) (n int, err error) {
	err = s.writeWithoutNotifying(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
		next, n, err = s.host.Lose(state, chosen, false)
		return next, err
	})
	return n, err
}

// repair lets the data plane carry again what it lost.
func (s *Service) repair(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	clear(s.planeLost)
	if err := s.saveLoss(); err != nil {
		return err
	}
	return s.reapply(ctx)
}

// reapply gives the data plane everything again; under writing.
func (s *Service) reapply(ctx context.Context) error {
	s.noteApplied(s.state.Load())
	errs, err := s.plane.Apply(ctx, s.lastDesired())
	if err == nil {
		err = joinByID(errs)
	}
	s.complete = err == nil
	return err
}

// desiredOf is what the data plane shall carry: the state without what it has lost.
func (s *Service) desiredOf(state *hnsd.State) desired.State {
	d := hnsd.Desired(state)
	if len(s.planeLost) == 0 {
		return d
	}
	lost := func(id string) bool { return s.planeLost[id] }
	d.LoadBalancers = slices.DeleteFunc(d.LoadBalancers, func(lb desired.LoadBalancer) bool { return lost(lb.ID) })
	for i := range d.LoadBalancers {
		d.LoadBalancers[i].Backends = slices.DeleteFunc(slices.Clone(d.LoadBalancers[i].Backends), lost)
	}
	d.Endpoints = slices.DeleteFunc(d.Endpoints, func(e desired.Endpoint) bool { return lost(e.ID) })
	d.Networks = slices.DeleteFunc(d.Networks, func(n desired.Network) bool { return lost(n.ID) })
	return d
}
