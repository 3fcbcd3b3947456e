package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
)

// lister makes the calls of a full check, beside the loop. It has no state of its own.
type lister struct {
	networks  networkReader
	ids       idLister
	documents documentReader
	network   string // its name
	readers   int
}

// objectIDs are ids by kind.
type objectIDs struct{ endpoints, balancers []balance.GUID }

func (o objectIDs) empty() bool { return len(o.endpoints)+len(o.balancers) == 0 }

// step is what one step of a full check found.
type step struct {
	err error

	// First step: what there is. outlines is nil if they were not asked for, or HNS did not answer.
	version hns.Version
	network hns.Network
	objectIDs
	outlines    map[balance.GUID]uint64
	outlinesErr error

	// Second step: the documents that were read, and the objects that are gone.
	second        bool
	endpointsRead []balance.EndpointEntry
	balancersRead []*balance.Balancer
	gone          []balance.GUID
}

// list is the first step: the ids of everything. A known version is not asked for again. A known network is only looked up by its
// id, except on overlay networks, whose document has the subnets of other nodes.
func (l lister) list(ctx context.Context, version hns.Version, network hns.Network, withOutlines bool) (s step) {
	s.version, s.network = version, network
	if version == (hns.Version{}) {
		if s.version, s.err = l.networks.Version(ctx); s.err != nil {
			return s
		}
	}
	if s.network, s.err = l.findNetwork(ctx, network); s.err != nil {
		return s
	}

	endpoints, err := l.ids.EndpointIDs(ctx, s.network.ID)
	if err != nil {
		s.err = err
		return s
	}
	balancers, err := l.ids.LoadBalancerIDs(ctx)
	if err != nil {
		s.err = err
		return s
	}
	s.endpoints, s.balancers = parseIDs(endpoints), parseIDs(balancers)

	if withOutlines {
		s.outlines, s.outlinesErr = l.outlines(ctx)
	}
	return s
}

func parseIDs[T ~string](ids []T) (guids []balance.GUID) {
	for _, id := range ids {
		if g, ok := balance.ParseGUID(id); ok {
			guids = append(guids, g)
		}
	}
	return guids
}

func (l lister) findNetwork(ctx context.Context, known hns.Network) (hns.Network, error) {
	if known.ID != "" && known.Type != hns.Overlay {
		ids, err := l.networks.NetworkIDs(ctx, l.network)
		if err != nil || slices.Contains(ids, known.ID) {
			return known, err
		}
	}

	network, err := l.networks.NetworkByName(ctx, l.network)
	if hns.IsAbsent(err) {
		return network, fmt.Errorf("waiting for the HNS network %q: %w", l.network, err)
	}
	return network, err
}

// outlines returns an error if HNS does not list any.
func (l lister) outlines(ctx context.Context) (map[balance.GUID]uint64, error) {
	listed, err := l.ids.LoadBalancerOutlines(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[balance.GUID]uint64, len(listed))
	for id, outline := range listed {
		if g, ok := balance.ParseGUID(id); ok {
			out[g] = outline
		}
	}
	return out, nil
}

// read is the second step: documents, several at a time. An object that is gone does not count as a failure. One that HNS cannot
// give after three attempts does, but what was read is kept.
func (l lister) read(ctx context.Context, ids objectIDs) step {
	out := step{second: true}
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan func(context.Context) error)
	for range l.readers {
		wg.Go(func() {
			for read := range work {
				err := read(ctx)
				for range 2 {
					if hns.ClassOf(err) == hns.Unknown {
						err = read(ctx)
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
	take := func(id balance.GUID, err error, put func()) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			put()
		case hns.IsAbsent(err):
			out.gone = append(out.gone, id)
		default:
			return err
		}
		return nil
	}

	for _, id := range ids.balancers { // first: what is served matters more
		work <- func(ctx context.Context) error {
			lb, err := l.documents.LoadBalancer(ctx, hns.LoadBalancerID(id.String()))
			return take(id, err, func() {
				if b, ok := balance.NewBalancer(lb); ok {
					out.balancersRead = append(out.balancersRead, b)
				}
			})
		}
	}
	for _, id := range ids.endpoints {
		work <- func(ctx context.Context) error {
			e, err := l.documents.Endpoint(ctx, hns.EndpointID(id.String()))
			return take(id, err, func() {
				if entry, ok := balance.NewEndpoint(e); ok {
					out.endpointsRead = append(out.endpointsRead, entry)
				}
			})
		}
	}

	close(work)
	wg.Wait()
	return out
}

// everything reads all ids and documents one by one, for Proxy.Diff.
func (l lister) everything(ctx context.Context, network hns.NetworkID) (all balance.Listed, err error) {
	endpoints, err := l.ids.EndpointIDs(ctx, network)
	if err != nil {
		return all, err
	}
	balancers, err := l.ids.LoadBalancerIDs(ctx)
	if err != nil {
		return all, err
	}

	for _, id := range endpoints {
		e, err := l.documents.Endpoint(ctx, id)
		if err == nil {
			all.Endpoints = append(all.Endpoints, e)
		} else if !hns.IsAbsent(err) {
			return all, fmt.Errorf("listing endpoints: %w", err)
		}
	}
	for _, id := range balancers {
		lb, err := l.documents.LoadBalancer(ctx, id)
		if err == nil {
			all.LoadBalancers = append(all.LoadBalancers, lb)
		} else if !hns.IsAbsent(err) {
			return all, fmt.Errorf("listing load balancers: %w", err)
		}
	}
	return all, nil
}
