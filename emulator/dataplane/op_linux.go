package dataplane

import "context"

// effect is what an operation does to the kernel.
type effect interface {
	// apply carries the operation out. want is the state that the plan leads to.
	apply(ctx context.Context, d *DataPlane, want State) error
}

// managed is a resource in the kernel.
type managed interface {
	// create makes the resource, or corrects what differs of one that is there.
	create(d *DataPlane) error
	// delete removes it. If it is gone already, that is success.
	delete(d *DataPlane) error
}
