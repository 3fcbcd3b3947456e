package allot

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/numa"
	"porthole.dev/porthole/kubelet/pin"
)

// allocation gives one pod resources of one trade; device.Round and pin.Round are ones. It ends with Commit or Abort.
type allocation interface {
	// Hints returns, for each resource, from which NUMA nodes a container can have it; those of the pod as a whole for
	// nil.
	Hints(c *v1.Container) [][]numa.Hint
	Allocate(ctx context.Context, c *v1.Container, near numa.Hint) error
	Commit(ctx context.Context) error
	Abort()
}

// placing gives pods the resources of which there are pieces: devices, processors, memory of NUMA nodes. With a
// policy, or where processors or memory are given, it serves one pod after another, because each hint has to hold
// until it is used: a device plugin that hangs delays all new pods then, for a minute at most.
type placing struct {
	Topology
	begin []func(*v1.Pod) allocation
	pins  pins
	turn  chan struct{} // nil: no turns
	meter *meter.Meter
}

func newPlacing(t Topology, p pins, m *meter.Meter, begin []func(*v1.Pod) allocation) *placing {
	l := &placing{Topology: t, begin: begin, pins: p, meter: m}
	if p.Active() || l.hasPolicy() {
		l.turn = make(chan struct{}, 1)
	}
	return l
}

func (l *placing) hasPolicy() bool { return l.Name != "" && l.Name != numa.PolicyNone }

// allocate gives a pod what it asks for, or returns why it cannot run here, in upstream's words. A pod that has it
// keeps it.
func (l *placing) allocate(ctx context.Context, p *v1.Pod) *admit.Refusal {
	if l.turn != nil {
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-ctx.Done():
			return refusalOf(ctx.Err())
		}
	}
	var parts []allocation
	for _, begin := range l.begin {
		parts = append(parts, begin(p))
	}
	began := time.Now()
	err := l.place(ctx, p, parts)

	for _, a := range parts {
		if err == nil {
			err = a.Commit(ctx)
		}
	}

	l.meter.Placed(time.Since(began), err != nil)
	if err == nil {
		return nil
	}
	for _, a := range parts {
		a.Abort()
	}
	return refusalOf(err)
}

// affinityError is upstream's refusal of a pod whose resources do not lie to each other as the policy demands.
type affinityError struct{}

func (affinityError) Error() string { return "Resources cannot be allocated with Topology locality" }

// Reason is that of the pod's status.
func (affinityError) Reason() string { return "TopologyAffinityError" }

// place finds the nodes for each container, or for all together, and allocates.
func (l *placing) place(ctx context.Context, p *v1.Pod, parts []allocation) error {
	var near numa.Hint
	if l.hasPolicy() && l.WholePod {
		var ok bool
		if near, ok = l.Merge(hintsOf(parts, nil)); !ok {
			return affinityError{}
		}
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if l.hasPolicy() && !l.WholePod {
				var ok bool
				if near, ok = l.Merge(hintsOf(parts, &list[i])); !ok {
					return affinityError{}
				}
			}
			for _, a := range parts {
				if err := a.Allocate(ctx, &list[i], near); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func hintsOf(parts []allocation, c *v1.Container) (out [][]numa.Hint) {
	for _, a := range parts {
		out = append(out, a.Hints(c)...)
	}
	return out
}

// refusalOf turns an error of an allocation into the refusal of the pod.
func refusalOf(err error) *admit.Refusal {
	var own interface{ Reason() string }
	if errors.As(err, &own) {
		return &admit.Refusal{Reason: own.Reason(), Message: err.Error()}
	}
	return &admit.Refusal{Reason: "UnexpectedAdmissionError",
		Message: "Allocate failed due to " + err.Error() + ", which is unexpected"}
}

// regain gives a pod that runs the processors and the memory that it had, if what was written down about them is lost.
func (l *placing) regain(ctx context.Context, p *v1.Pod) {
	if !l.pins.Active() {
		return
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	r := l.pins.Begin(p)
	err := (&placing{}).place(ctx, p, []allocation{r})
	if err == nil {
		err = r.Commit(ctx)
	}
	if err != nil {
		r.Abort()
		klog.FromContext(ctx).Error(err, "A pod that runs has no processors or memory of its own", "pod", p.UID)
	}
}

// resizeRefusal refuses to change what a container has alone, in upstream's words. had is the pod with the resources
// that it has.
func (l *placing) resizeRefusal(had, wants *v1.Pod) *admit.Refusal {
	if wants.Status.QOSClass != v1.PodQOSGuaranteed {
		return nil
	}
	infeasible := func(manager, policy string) *admit.Refusal {
		return &admit.Refusal{Reason: v1.PodReasonInfeasible,
			Message: "Resize is infeasible for Guaranteed Pods alongside " + manager + " Manager policy \"" + policy +
				"\""}
	}
	switch {
	case l.pins.CPUs() && requestsChange(had, wants, v1.ResourceCPU):
		return infeasible("CPU", "static")
	case l.pins.MemoryNodes() && requestsChange(had, wants, v1.ResourceMemory):
		return infeasible("Memory", "Static")
	}
	return nil
}

// requestsChange reports whether a container asks for another amount of a resource than it has.
func requestsChange(had, wants *v1.Pod, name v1.ResourceName) bool {
	have := map[string]v1.ResourceList{}
	for _, list := range [][]v1.Container{had.Spec.InitContainers, had.Spec.Containers} {
		for _, c := range list {
			have[c.Name] = c.Resources.Requests
		}
	}
	for _, list := range [][]v1.Container{wants.Spec.InitContainers, wants.Spec.Containers} {
		for _, c := range list {
			is, want := have[c.Name][name], c.Resources.Requests[name]
			if is.Cmp(want) != 0 {
				return true
			}
		}
	}
	return false
}

// noPins is used when neither the CPU manager nor the memory manager has a policy.
type noPins struct{}

func (noPins) Active() bool                   { return false }
func (noPins) CPUs() bool                     { return false }
func (noPins) MemoryNodes() bool              { return false }
func (noPins) Begin(*v1.Pod) *pin.Round       { return nil } // Active says that there is none
func (noPins) Release(types.UID) bool         { return false }
func (noPins) Of(types.UID, string) pin.Place { return pin.Place{} }
