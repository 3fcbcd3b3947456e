package adapters

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/routes/keep"
)

// host is the adapters of one host. Windows implements it (NewHost), tests have one in memory.
type host interface {
	// List returns all adapters that are up, with their settings for IPv4.
	List() ([]Adapter, error)
	// EnableForwarding may be repeated.
	EnableForwarding(Adapter) error
	// DeleteDefault removes a default route. One that is gone is success.
	DeleteDefault(a Adapter, nextHop netip.Addr) error
	// Watch calls changed once when it is established and after each change of adapters, addresses or routes, from any
	// goroutine, until ctx ends or an error.
	Watch(ctx context.Context, changed func()) error
}

// Keeper keeps a host's adapters as they are wanted. Make it with New. It is safe for concurrent use.
type Keeper struct {
	host host
	loop *keep.Loop[Status]

	mu     sync.Mutex
	wanted Wanted

	right  map[key]bool // adapters that had what they need: another change of them is a repair; of the pass that runs
	logged string       // the plan that was logged last; of the pass that runs
}

// Status describes the adapters after a pass.
type Status struct {
	Known    bool            `json:"known"` // false until the adapters were read once
	Adapters []AdapterStatus `json:"adapters"`
	Problems []string        `json:"problems,omitempty"` // what is not as it should be
	Repairs  int             `json:"repairs"`            // changes of adapters that had been right before
}

// AdapterStatus is one adapter that carries packets between pods and other nodes.
type AdapterStatus struct {
	Name       string `json:"name"`
	Address    string `json:"address"` // the one for which it is needed
	Forwarding bool   `json:"forwarding"`
}

// New returns a Keeper that has done nothing yet. The adapters of the host it runs on are those of NewHost.
func New(h host) *Keeper {
	k := &Keeper{host: h, right: map[key]bool{}}
	k.loop = keep.NewLoop(keep.LoopOptions[Status]{Subject: "adapters", Pass: k.pass, Watch: h.Watch})
	return k
}

// NameOf returns the name of the adapter that has the address, "" if none has.
func (k *Keeper) NameOf(addr netip.Addr) (string, error) {
	list, err := k.host.List()
	for _, a := range list {
		if a.has(addr) {
			return a.Name, err
		}
	}
	return "", err
}

// Names returns the names of the adapters that have addresses.
func (k *Keeper) Names() (names []string, err error) {
	list, err := k.host.List()
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names, err
}

// Status returns the outcome of the last pass.
func (k *Keeper) Status() Status { return k.loop.Status() }

// Sync makes one pass for what is wanted from now on. The error says what is not as it should be afterwards.
func (k *Keeper) Sync(ctx context.Context, wanted Wanted) error {
	k.mu.Lock()
	k.wanted = wanted
	k.mu.Unlock()
	k.loop.Sync(ctx)

	var errs []error
	for _, text := range k.Status().Problems {
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// Run repeats passes until ctx ends. Sync must have been called before.
func (k *Keeper) Run(ctx context.Context) { k.loop.Run(ctx) }

// pass observes, plans and applies. It is complete if there is no problem.
func (k *Keeper) pass(ctx context.Context, status Status) (after Status, complete bool) {
	k.mu.Lock()
	wanted := k.wanted
	k.mu.Unlock()
	list, err := k.host.List()
	if err != nil {
		status.Problems = []string{err.Error()}
		return status, false
	}

	plan := MakePlan(wanted, list)
	k.log(ctx, plan)
	status.Known, status.Problems = true, plan.Problems
	failed := map[key]bool{}
	for _, op := range plan.Ops {
		if err := k.apply(op); err != nil {
			status.Problems = append(status.Problems, fmt.Sprintf("%s: %v", op, err))
			failed[op.Adapter.key()] = true
			continue
		}
		if k.right[op.Adapter.key()] {
			status.Repairs++
		}
	}

	status.Adapters = k.statusOf(wanted, list, failed)
	return status, len(status.Problems) == 0
}

// statusOf describes the adapters that are needed, after the plan was carried out, and remembers which are right.
func (k *Keeper) statusOf(wanted Wanted, list []Adapter, failed map[key]bool) []AdapterStatus {
	right, out := map[key]bool{}, []AdapterStatus{}
	for _, need := range wanted.needs() {
		for _, a := range list {
			if a.has(need.addr) {
				ok := !failed[a.key()]
				right[a.key()] = ok || k.right[a.key()]
				out = append(out, AdapterStatus{Name: a.Name, Address: need.addr.String(),
					Forwarding: a.Forwarding || ok})
			}
		}
	}
	k.right = right
	return out
}

func (k *Keeper) apply(op Op) error {
	switch op.Verb {
	case EnableForwarding:
		return k.host.EnableForwarding(op.Adapter)
	case DeleteDefault:
		return k.host.DeleteDefault(op.Adapter, op.NextHop)
	}
	return errors.ErrUnsupported
}

// log writes a plan to the log unless the pass before had the same.
func (k *Keeper) log(ctx context.Context, plan Plan) {
	text := plan.String()
	if text != k.logged && text != "" {
		klog.FromContext(ctx).Info("Changing the host's adapters", "plan", text)
	}
	k.logged = text
}
