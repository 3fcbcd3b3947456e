package pin

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resources "k8s.io/component-helpers/resource"
	"k8s.io/utils/cpuset"

	"porthole.dev/porthole/kubelet/checkpoint"
	"porthole.dev/porthole/kubelet/numa"
)

// cpus says which container has which processors exclusively. It has no effect on the machine.
type cpus struct {
	machine *numa.Machine
	cpuOptions
	reserved cpuset.CPUSet
	held     map[types.UID]map[string]cpuset.CPUSet // by pod and container
}

// shared returns the processors that no container has exclusively.
func (c *cpus) shared() cpuset.CPUSet { return c.forPods().Difference(c.exclusive()) }

// forPods returns the processors that containers may use: all, or without the reserved ones if the option
// strict-cpu-reservation is on.
func (c *cpus) forPods() cpuset.CPUSet {
	if c.strict {
		return c.machine.All().Difference(c.reserved)
	}
	return c.machine.All()
}

// exclusive returns those that some container has alone.
func (c *cpus) exclusive() cpuset.CPUSet {
	var all []cpuset.CPUSet
	for _, containers := range c.held {
		all = append(all, slices.Collect(maps.Values(containers))...)
	}
	return cpuset.New().Union(all...)
}

// free returns the processors that a container could get alone.
func (c *cpus) free() cpuset.CPUSet { return c.shared().Difference(c.reserved) }

// whole returns how many processors a container of a pod is to have alone.
func whole(p *v1.Pod, container *v1.Container) int {
	q := container.Resources.Requests[v1.ResourceCPU]
	if !mayPin(p) || q.Value()*1000 != q.MilliValue() {
		return 0
	}
	return int(q.Value())
}

// mayPin reports whether a pod is of the kind whose containers can have something alone.
func mayPin(p *v1.Pod) bool {
	return p.Status.QOSClass == v1.PodQOSGuaranteed && !resources.IsPodLevelResourcesSet(p)
}

// wholeOfPod returns how many processors the containers of a pod have alone at the same time. Init containers that end
// have theirs before the others, beside those of the sidecars that have started.
func wholeOfPod(p *v1.Pod) int {
	first, sidecars := 0, 0
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if n := whole(p, c); isSidecar(c) {
			sidecars += n
		} else {
			first = max(first, sidecars+n)
		}
	}
	lasting := sidecars
	for i := range p.Spec.Containers {
		lasting += whole(p, &p.Spec.Containers[i])
	}
	return max(first, lasting)
}

// isSidecar reports whether an init container goes on beside the others.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// reusable returns the processors that init containers of a pod have, and that no container has which runs beside the
// next one.
func (c *cpus) reusable(p *v1.Pod) cpuset.CPUSet {
	init, lasting := cpuset.New(), cpuset.New()
	for i := range p.Spec.InitContainers {
		if one := &p.Spec.InitContainers[i]; isSidecar(one) {
			lasting = lasting.Union(c.held[p.UID][one.Name])
		} else {
			init = init.Union(c.held[p.UID][one.Name])
		}
	}
	for i := range p.Spec.Containers {
		lasting = lasting.Union(c.held[p.UID][p.Spec.Containers[i].Name])
	}
	return init.Difference(lasting)
}

// hints returns from which nodes a container can have its processors.
func (c *cpus) hints(p *v1.Pod, container *v1.Container) [][]numa.Hint {
	n := whole(p, container)
	if n == 0 {
		return nil
	}
	if has, ok := c.held[p.UID][container.Name]; ok {
		if has.Size() != n {
			return [][]numa.Hint{numa.Impossible()}
		}
		return [][]numa.Hint{c.hintsFor(has, cpuset.New(), n)}
	}
	return [][]numa.Hint{c.hintsFor(c.free(), c.reusable(p), n)}
}

// podHints returns from which nodes a pod can have all its processors.
func (c *cpus) podHints(p *v1.Pod) [][]numa.Hint {
	n := wholeOfPod(p)
	if n == 0 {
		return nil
	}
	has := cpuset.New()
	for _, container := range containersOf(p) {
		if set, ok := c.held[p.UID][container.Name]; ok {
			if set.Size() != whole(p, container) {
				return [][]numa.Hint{numa.Impossible()}
			}
			has = has.Union(set)
		}
	}
	if has.Size() == n {
		return [][]numa.Hint{c.hintsFor(has, cpuset.New(), n)}
	}
	return [][]numa.Hint{c.hintsFor(c.free(), has, n)}
}

// hintsFor returns each set of nodes that has n of the processors, all of reuse among them.
func (c *cpus) hintsFor(free, reuse cpuset.CPUSet, n int) []numa.Hint {
	ids := c.machine.NodeIDs()
	least, out := len(ids), []numa.Hint{}
	for _, mask := range numa.Masks(ids) {
		if c.machine.In(c.machine.All(), mask).Size() >= n {
			least = min(least, mask.Count())
		}
		kept := c.machine.In(reuse, mask)
		if kept.Size() == reuse.Size() && kept.Size()+c.machine.In(free, mask).Size() >= n {
			out = append(out, numa.Hint{Nodes: mask})
		}
	}
	if len(out) == 0 {
		return numa.Impossible()
	}
	return numa.Prefer(out, least)
}

// alignmentError refuses a container that cannot have whole cores.
type alignmentError struct{ text string }

func (e *alignmentError) Error() string { return "SMT Alignment Error: " + e.text }

// Reason is that of the pod's status.
func (e *alignmentError) Reason() string { return "SMTAlignmentError" }

// checkCores refuses a number of processors that are not whole cores, or more than are free in whole cores.
func (c *cpus) checkCores(n int) error {
	per := c.machine.PerCore()
	if !c.fullCores {
		return nil
	}
	if n%per != 0 {
		return &alignmentError{fmt.Sprintf("requested %d cpus not multiple cpus per core = %d", n, per)}
	}
	if free := c.shared().Difference(c.machine.Cores(c.reserved)).Size(); n > free {
		return &alignmentError{fmt.Sprintf(
			"not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d",
			free, n, per)}
	}
	return nil
}

// allocate gives a container its processors, from near first. One that has them keeps them.
func (c *cpus) allocate(p *v1.Pod, container *v1.Container, near numa.Mask) error {
	n := whole(p, container)
	if _, ok := c.held[p.UID][container.Name]; ok || n == 0 {
		return nil
	}
	if err := c.checkCores(n); err != nil {
		return err
	}

	// Processors near the hint come first; the rest is from anywhere.
	free := c.free().Union(c.reusable(p))
	got := cpuset.New()
	if near != 0 {
		aligned := c.machine.In(free, near)
		set, err := numa.Take(c.machine, aligned, min(n, aligned.Size()), c.oneCache)
		if err != nil {
			return err
		}
		got = set
	}
	rest, err := numa.Take(c.machine, free.Difference(got), n-got.Size(), c.oneCache)
	if err != nil {
		return err
	}
	if c.held[p.UID] == nil {
		c.held[p.UID] = map[string]cpuset.CPUSet{}
	}
	c.held[p.UID][container.Name] = got.Union(rest)
	return nil
}

// recall takes in what an earlier kubelet wrote down.
func (c *cpus) recall(f *checkpoint.CPUs) error {
	shared, err := cpuset.Parse(f.Shared)
	if err != nil {
		return fmt.Errorf("could not parse default cpu set %q: %w", f.Shared, err)
	}
	held := map[types.UID]map[string]cpuset.CPUSet{}
	for uid, containers := range f.Entries {
		held[types.UID(uid)] = map[string]cpuset.CPUSet{}
		for name, text := range containers {
			if held[types.UID(uid)][name], err = cpuset.Parse(text); err != nil {
				return fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", text, name, uid, err)
			}
		}
	}
	if shared.IsEmpty() && len(held) == 0 {
		return nil // written before anything was known
	}
	c.held = held
	return c.checkRecalled(shared)
}

// checkRecalled returns why what an earlier kubelet wrote down does not fit to this machine and configuration.
func (c *cpus) checkRecalled(shared cpuset.CPUSet) error {
	switch both := c.reserved.Intersection(shared); {
	case shared.IsEmpty():
		return errors.New("default cpuset cannot be empty")
	case c.strict && !both.IsEmpty():
		return fmt.Errorf("some of strictly reserved cpus: %q are present in defaultCpuSet: %q", both, shared)
	case !c.strict && !both.Equals(c.reserved):
		return fmt.Errorf("not all reserved cpus: %q are present in defaultCpuSet: %q", c.reserved, shared)
	}
	for uid, containers := range c.held {
		for name, set := range containers {
			if !set.Intersection(shared).IsEmpty() {
				return fmt.Errorf("pod: %s, container: %s cpuset: %q overlaps with default cpuset %q", uid, name, set,
					shared)
			}
		}
	}
	if known := shared.Union(c.exclusive()); !known.Equals(c.forPods()) {
		return fmt.Errorf("current set of available CPUs %q doesn't match with CPUs in state %q", c.forPods(), known)
	}
	return nil
}

// record returns the table as the checkpoint has it.
func (c *cpus) record() checkpoint.CPUs {
	if c == nil {
		return checkpoint.CPUs{Policy: cpuNone}
	}
	out := checkpoint.CPUs{Policy: cpuStatic, Shared: c.shared().String(), Entries: map[string]map[string]string{}}
	for uid, containers := range c.held {
		out.Entries[string(uid)] = map[string]string{}
		for name, set := range containers {
			out.Entries[string(uid)][name] = set.String()
		}
	}
	return out
}

// containersOf returns the containers of a pod, in the order in which they get what they have alone.
func containersOf(p *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range p.Spec.InitContainers {
		out = append(out, &p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		out = append(out, &p.Spec.Containers[i])
	}
	return out
}
