package bootrecord

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"
)

// gatePeriod is how often a closed gate reads the file. A pod that starts with the machine waits half of it longer on
// average.
const gatePeriod = 100 * time.Millisecond

// Gate keeps pods from starting before the pod network of this boot is right. It opens once; a later failure of the
// network is not its business. A nil Gate is open.
type Gate struct {
	network, pods, bootID string
	why                   atomic.Pointer[string]
}

// NewGate returns the gate that the file boot.json of a record opens in a boot. It is open if the file says so
// already: then this is a mere restart of the kubelet. NewGate returns nil, which is open, without a file; with one,
// the id of the boot must be known.
func NewGate(network, bootID string) (*Gate, error) {
	if network == "" {
		return nil, nil
	}
	if bootID == "" {
		return nil, fmt.Errorf("waiting for %s: this host does not say which boot this is", network)
	}
	g := &Gate{network: network, pods: filepath.Join(filepath.Dir(network), Pods), bootID: bootID}
	g.look()
	return g, nil
}

// look reads the file and reports whether the gate is open.
func (g *Gate) look() bool {
	why := ReadyIn(g.network, g.bootID)
	if why != "" {
		why = "the pod network of this boot is not made yet (porthole-routes): " + why
	}
	g.why.Store(&why)
	return why == ""
}

// Why returns why pods must wait; "" if they need not. It does not block.
func (g *Gate) Why() string {
	if g == nil {
		return ""
	}
	return *g.why.Load()
}

// Run waits until the gate opens, then calls opened; or until ctx ends. It records either state. The error is that of
// the record, which others only show: the gate does not depend on it.
func (g *Gate) Run(ctx context.Context, opened func()) error {
	if g == nil {
		return nil
	}
	record := func(p Phase) error { return Write(g.pods, Record{BootID: g.bootID, Phase: p}) }
	if g.Why() == "" {
		return record(Ready)
	}
	failed := record(Waiting)
	tick := time.NewTicker(gatePeriod)
	defer tick.Stop()
	for !g.look() {
		select {
		case <-ctx.Done():
			return failed
		case <-tick.C:
		}
	}
	err := record(Ready)
	opened()
	return err
}
