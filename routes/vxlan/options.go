package vxlan

import (
	"context"
	"net/netip"
)

// Options of New.
type Options struct {
	Node   string     // this node's name, required
	Addr   netip.Addr // its address on the underlay, to which peers send, required
	Config Config     // required, valid
	// Cluster is the range of all pods. Required.
	Cluster netip.Prefix
	// Annotate sets annotations of this node. Required.
	Annotate func(ctx context.Context, annotations map[string]string) error
	// HNS is Windows networking; required on Windows, nil elsewhere.
	HNS HNS
}
