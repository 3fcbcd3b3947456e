package vxlan

import (
	"context"
	"net/netip"

	"porthole.dev/porthole/routes/table"
)

// Options of New.
type Options struct {
	Node   string     // this node's name, required
	Addr   netip.Addr // its address on the underlay, to which peers send, required
	Config Config     // required, valid
	// Cluster is the range of all pods. Required.
	Cluster netip.Prefix
	// Ranges are what nodes' claims are held against; zero: Cluster alone.
	Ranges table.Cluster
	// Annotate sets annotations of this node. Required.
	Annotate func(ctx context.Context, annotations map[string]string) error
	// HNS is Windows networking; required on Windows, nil elsewhere.
	HNS HNS
}

// cluster is what nodes' claims are held against.
func (o Options) cluster() table.Cluster {
	if len(o.Ranges.Pods) == 0 {
		o.Ranges.Pods = []netip.Prefix{o.Cluster.Masked()}
	}
	return o.Ranges
}
