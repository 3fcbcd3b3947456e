package pod

import (
	"time"

	"porthole.dev/porthole/kubelet/pod/observed"
)

// runtimeObjects are the sandboxes and containers of a pod. The Runtime is nil until the runtime was read once: nil is
// not "nothing runs". What was removed never comes back, whatever a late answer says.
type runtimeObjects struct {
	*observed.Runtime
	// removed are ids of objects that were removed; late events may still name them.
	removed map[string]bool
	// stopped are ids of sandboxes whose network this kubelet has taken down.
	stopped map[string]bool
}

func (o *runtimeObjects) read() bool { return o.Runtime != nil }

// add merges objects that an action has made. They are new: no late answer can have removed them.
func (o *runtimeObjects) add(made *observed.Runtime) { o.Runtime = o.Merge(made) }

// see merges an answer of the runtime, which may be an old one.
func (o *runtimeObjects) see(answer *observed.Runtime) { o.Runtime = o.Merge(o.left(answer)) }

// check takes the answer of a full check that began at that time.
func (o *runtimeObjects) check(answer *observed.Runtime, began time.Time) {
	o.Runtime = o.Checked(o.left(answer), began)
}

// left returns r without what is gone for good.
func (o *runtimeObjects) left(r *observed.Runtime) *observed.Runtime {
	for id := range o.removed {
		r = r.Without(id)
	}
	return r
}

// lose drops an object that the runtime no longer has.
func (o *runtimeObjects) lose(id string) { o.Runtime = o.Without(id) }

// remove drops an object for good.
func (o *runtimeObjects) remove(id string) {
	o.removed[id] = true
	o.lose(id)
}

// down notes that a sandbox has stopped and that its network was taken down.
func (o *runtimeObjects) down(id string) {
	o.stopped[id] = true
	o.Runtime = o.SandboxDown(id)
}
