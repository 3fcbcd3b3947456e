package serve

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/carried"
	"porthole.dev/porthole/emulator/hnsd/objects"
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

// losses are what makes HNS lose things without a call.
type losses struct {
	host    *hnsd.Host
	objects *objects.Store
	carried *carried.Store
}

// lose carries out a request and gives the ids of what was lost.
func (l losses) lose(ctx context.Context, q LoseRequest) ([]string, error) {
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
	// The choice and the ids are made while nobody changes objects; the rule runs once.
	chosen := map[string]bool{}
	ids := []string{}
	err = l.loseChosen(ctx, q, func(state *hnsd.State) func(*hnsd.Object) bool {
		for _, id := range choose(state, q, pattern) {
			chosen[id] = true
			ids = append(ids, id)
		}
		return func(o *hnsd.Object) bool { return chosen[o.ID] }
	})
	return ids, err
}

// loseChosen chooses and loses in one change, so that no call comes between the two.
func (l losses) loseChosen(ctx context.Context, q LoseRequest,
	choose func(*hnsd.State) func(*hnsd.Object) bool) error {
	return l.objects.Alone(func(w objects.Writer) error {
		if !q.PlaneOnly {
			return w.Change(ctx, func(state *hnsd.State) (*hnsd.State, error) {
				next, _, err := l.host.Lose(state, choose(state), q.Renew)
				return next, err
			})
		}
		// Objects that only lose their packets are no change of the objects, and no line of the
		// journal.
		state := l.objects.State()
		hidden := choose(state)
		var ids []string
		for o := range state.Everything() {
			if hidden(o) {
				ids = append(ids, o.ID)
			}
		}
		return l.carried.Lose(ctx, state, ids)
	})
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
	// A percentage takes an object whenever the sum of shares passes a whole number.
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
func (l losses) forget(ctx context.Context, chosen func(*hnsd.Object) bool) (n int, err error) {
	err = l.objects.Alone(func(w objects.Writer) error {
		return w.Change(ctx, func(state *hnsd.State) (next *hnsd.State, err error) {
			next, n, err = l.host.Lose(state, chosen, false)
			return next, err
		})
	})
	return n, err
}

// repair lets the data plane carry again what it lost.
func (l losses) repair(ctx context.Context) error {
	return l.objects.Alone(func(objects.Writer) error { return l.carried.Repair(ctx, l.objects.State()) })
}
