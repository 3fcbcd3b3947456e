package ovn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"porthole.dev/porthole/internal/ovnet"
)

// Remove takes out of the host's Open vSwitch what the mode wrote for a node: the node's own port, br-ex, whose
// addresses and routes go back to the card, and the keys that lead ovn-controller to OVN. It returns when ovs-vswitchd
// has carried that out. The keys that Open vSwitch's own start writes (system-id, hostname) stay, and so does br-int,
// which is ovn-controller's. The mode must not run, and no pod may be attached. Of o, Node, Database and Uplink are
// used.
func Remove(ctx context.Context, o Options) error {
	h, err := NewHost(o)
	if err != nil {
		return err
	}
	seen, err := h.Observe(ctx)
	if err != nil {
		return err
	}
	for _, c := range removal(o, seen) {
		if err := h.Apply(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return carriedOut(ctx, h)
}

// Leftovers names what Remove would change.
func Leftovers(ctx context.Context, o Options) (list []string, err error) {
	h, err := NewHost(o)
	if err != nil {
		return nil, err
	}
	seen, err := h.Observe(ctx)
	for _, c := range removal(o, seen) {
		list = append(list, "Open vSwitch: "+c.String())
	}
	return list, err
}

// carriedOut waits until ovs-vswitchd has done what the database says.
func carriedOut(ctx context.Context, h host) error {
	ctx, cancel := context.WithTimeout(ctx, pendingWait)
	defer cancel()
	for {
		seen, err := h.Observe(ctx)
		if err != nil || !seen.Pending {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New(
				"ovs-vswitchd has not carried out the last change of its database: start it, then leave again")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ours are the keys in external_ids of the switch that nobody but the mode writes.
var ours = []string{"ovn-remote", "ovn-encap-type", "ovn-encap-ip", "ovn-bridge", "ovn-bridge-datapath-type",
	"ovn-ofctrl-wait-before-clear"}

// removal returns the changes that Remove makes. If Remove was interrupted, these are the remaining ones. The keys are
// left alone if the switch's system-id is the name of another node.
func removal(o Options, seen Seen) (ops []Change) {
	name := NodeLink(o.Node)
	if port, there := seen.Bridges[integration].Ports[name]; there && port.ID == ovnet.NodePort(o.Node) {
		ops = append(ops, Change{Verb: DeletePort, Name: name, Why: "the node leaves"})
	}
	// another's has no addresses to be kept
	if bridge := seen.Bridges[external]; bridge.Addrs != nil && o.Uplink != "" {
		link := seen.Links[external]
		back := Change{Verb: MoveAddress, Name: o.Uplink, From: external, Addrs: link.Addrs, Routes: link.Routes}
		if len(link.Addrs) == 0 {
			back.Addrs = bridge.Addrs
		}
		for _, r := range bridge.Routes {
			if !slices.ContainsFunc(back.Routes, r.sameKey) {
				back.Routes = append(slices.Clone(back.Routes), r)
			}
		}
		ops = append(ops, back, Change{Verb: Release, Name: o.Uplink}, Change{Verb: DeleteBridge, Name: external})
	}

	if seen.Keys["system-id"] == o.Node {
		keys := maps.Clone(seen.Keys)
		maps.DeleteFunc(keys, func(k, _ string) bool { return !slices.Contains(ours, k) })
		if len(keys) > 0 {
			ops = append(ops, Change{Verb: DeleteKeys, Keys: keys})
		}
	}
	return ops
}
