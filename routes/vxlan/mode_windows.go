package vxlan

import (
	"context"
	"errors"

	"porthole.dev/porthole/routes/podnet"
	"porthole.dev/porthole/routes/table"
)

// Mode is vxlan on one Windows node, where it is not made yet: New returns an error.
type Mode struct{}

// errNotYet is the error of New.
var errNotYet = errors.New("--mode vxlan does not work on Windows nodes yet; host-gateway does")

// New returns an error.
func New(Options) (*Mode, error) { return nil, errNotYet }

// Network implements keep.Mode.
func (*Mode) Network(podnet.Options) (podnet.Network, error) { return podnet.Network{}, errNotYet }

// Observe implements keep.Mode.
func (*Mode) Observe(context.Context) (struct{}, error) { return struct{}{}, errNotYet }

// Plan implements keep.Mode.
func (*Mode) Plan([]table.Node, struct{}) table.Plan[table.Change] { return table.Plan[table.Change]{} }

// Apply implements keep.Mode.
func (*Mode) Apply(context.Context, table.Change) error { return errNotYet }

// Watch implements keep.Mode.
func (*Mode) Watch(context.Context, func()) error { return errNotYet }
