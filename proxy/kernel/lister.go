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

// list is the first step: the ids of everything. A known version is not asked for again. A known network is only
// looked up by its id, except on overlay networks, whose document has the subnets of other nodes.
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
	s.endpoints = parseIDs(endpoints)
	s.balancers = parseIDs(balancers)

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

// read is the second step: documents, several at a time. An object that is gone does not count as a failure. One that
// HNS cannot give after three attempts does, but what was read is kept.
func (l lister) read(ctx context.Context, ids objectIDs) step {
	r := reading{found: step{second: true}}
	work := make(chan func(context.Context) error)
	var wg sync.WaitGroup
	for range l.readers {
		wg.Go(func() {
			for read := range work {
				r.attempt(ctx, read)
			}
		})
	}

	for _, id := range ids.balancers { // first: what is served matters more
		work <- func(ctx context.Context) error {
			lb, err := l.documents.LoadBalancer(ctx, hns.LoadBalancerID(id.String()))
			return r.take(id, err, func() {
				if b, ok := balance.NewBalancer(lb); ok {
					r.found.balancersRead = append(r.found.balancersRead, b)
				}
			})
		}
	}
	for _, id := range ids.endpoints {
		work <- func(ctx context.Context) error {
			e, err := l.documents.Endpoint(ctx, hns.EndpointID(id.String()))
			return r.take(id, err, func() {
				if entry, ok := balance.NewEndpoint(e); ok {
					r.found.endpointsRead = append(r.found.endpointsRead, entry)
				}
			})
		}
	}

	close(work)
	wg.Wait()
	return r.found
}

// reading collects what several goroutines read.
type reading struct {
	mu    sync.Mutex
	found step // under mu
}

// attempt reads one document, and again up to twice if HNS gave no clear answer.
func (r *reading) attempt(ctx context.Context, read func(context.Context) error) {
	err := read(ctx)
	for range 2 {
		if hns.ClassOf(err) == hns.Unknown {
			err = read(ctx)
		}
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.found.err = errors.Join(errors.New("reading what HNS listed"), err)
	}
}

// take keeps the document of an object by calling put, or notes that the object is gone. It returns any other err.
func (r *reading) take(id balance.GUID, err error, put func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		put()
	case hns.IsAbsent(err):
		r.found.gone = append(r.found.gone, id)
	default:
		return err
	}
	return nil
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
