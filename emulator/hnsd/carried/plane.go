package carried

import (
	"context"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/desired"
)

// DataPlane carries packets for a state; emulator/dataplane does it. Apply makes the kernel as desired and gives the
// error of each object, by id, that could not be carried.
type DataPlane interface {
	Apply(ctx context.Context, d desired.State) (map[string]error, error)
}

// verifier is what a DataPlane has if it can compare the kernel with the state.
// The data planes that hnsd knows are emulator/dataplane and None. The interfaces below are
// optional.
type verifier interface {
	Verify(ctx context.Context, d desired.State) ([]kernel.Drift, error)
}

// updater is what a DataPlane has if it can carry a small change alone.
type updater interface {
	Update(ctx context.Context, c desired.Change, all func() desired.State) (map[string]error, error)
}

// None keeps state only.
type None struct{}

// Apply carries nothing.
func (None) Apply(context.Context, desired.State) (map[string]error, error) { return nil, nil }

// Update keeps nothing either.
func (None) Update(context.Context, desired.Change, func() desired.State) (map[string]error, error) {
	return nil, nil
}
