package kernel

import (
	"time"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/proxy/balance"
)

// known is what is known of HNS: the result of the last full check, kept current by our own writes.
type known struct {
	index *balance.Index
	facts balance.Facts

	// observed is when the last complete full check began; zero: there was none yet.
	observed time.Time
	// away is why HNS could not be observed last; nil: it could.
	away error
	// unanswered counts the calls in a row that HNS did not answer.
	unanswered int

	// written are the objects that we wrote since the running full check began: what the full check lists of them is
	// older than what we know. Nil while no full check runs.
	written map[balance.GUID]bool
	// planned is the index's generation at the last plan of everything, plus 1; 0: everything is to be planned again.
	planned uint64
}

func (k *known) noteWritten(id balance.GUID) {
	if k.written != nil {
		k.written[id] = true
	}
}

func (k *known) putEndpoint(e hns.Endpoint) {
	if entry, ok := balance.NewEndpoint(e); ok {
		k.noteWritten(entry.ID)
		k.index.PutEndpoint(entry)
	}
}

func (k *known) dropEndpoint(id balance.GUID) {
	k.noteWritten(id)
	k.index.DropEndpoint(id)
}

func (k *known) putBalancer(lb hns.LoadBalancer) {
	if b, ok := balance.NewBalancer(lb); ok {
		k.noteWritten(b.ID)
		k.index.PutBalancer(b)
	}
}

func (k *known) dropBalancer(id hns.LoadBalancerID) {
	if g, ok := balance.ParseGUID(id); ok {
		k.noteWritten(g)
		k.index.DropBalancer(g)
	}
}
