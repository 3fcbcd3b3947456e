package pin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"porthole.dev/porthole/kubelet/numa"
)

// The values of cpuManagerPolicy and memoryManagerPolicy in a KubeletConfiguration.
const (
	cpuNone, cpuStatic       = "none", "static"
	memoryNone, memoryStatic = "None", "Static"
)

// Options configure a Manager.
type Options struct {
	// Dir is where the checkpoints are: the kubelet's folder.
	Dir     string
	Machine *numa.Machine
	// CPUPolicy is none or static, MemoryPolicy None or Static.
	CPUPolicy, MemoryPolicy string
	CPUOptions              map[string]string
	// ReservedCPUs are processors that nobody gets alone. If it is empty, as many as Reserved says are chosen.
	ReservedCPUs cpuset.CPUSet
	// ReservedMemory says for each NUMA node what is not for pods. Its sum has to be that of Reserved.
	ReservedMemory []v1beta1.MemoryReservation
	// Reserved is what pods cannot have of the node.
	Reserved v1.ResourceList
	// Alive returns whether a pod still has its place on the node, and whether all pods that have one are known.
	// Required before Begin.
	Alive func(types.UID) (alive, complete bool)
}

// The options of the policy static. Those of upstream that are not here would choose other processors: they are
// refused, so that nobody relies on them.
const (
	fullCores         = "full-pcpus-only"
	strictReservation = "strict-cpu-reservation"
	oneCache          = "prefer-align-cpus-by-uncorecache"
)

// cpuOptions are the options that are known.
type cpuOptions struct{ fullCores, strict, oneCache bool }

// parseCPUOptions reads the options of the policy static. Upstream's words, for what is in an earlier stage behind a
// gate too.
func parseCPUOptions(options map[string]string) (out cpuOptions, err error) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		var to *bool
		switch name {
		case fullCores:
			to = &out.fullCores
		case strictReservation:
			to = &out.strict
		case oneCache:
			to = &out.oneCache
		case "align-by-socket", "distribute-cpus-across-cores":
			return out, fmt.Errorf("CPU Manager Policy Alpha-level Options not enabled, but option %q provided", name)
		case "distribute-cpus-across-numa":
			return out, fmt.Errorf("CPU Manager Policy Beta-level Options not enabled, but option %q provided", name)
		default:
			return out, fmt.Errorf("unknown CPU Manager Policy option: %q", name)
		}
		if *to, err = strconv.ParseBool(options[name]); err != nil {
			return out, fmt.Errorf("bad value for option %q: %w", name, err)
		}
	}
	return out, nil
}

// newCPUs makes the table of processors; nil for the policy none.
func newCPUs(o Options) (*cpus, error) {
	switch o.CPUPolicy {
	case cpuNone:
		if len(o.CPUOptions) > 0 {
			return nil, fmt.Errorf("new none policy error: None policy: received unsupported options=%v", o.CPUOptions)
		}
		return nil, nil
	case cpuStatic:
	default:
		return nil, fmt.Errorf("unknown policy: %q", o.CPUPolicy)
	}

	reserved := o.Reserved[v1.ResourceCPU]
	if reserved.IsZero() {
		return nil,
			errors.New(
				"[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")
	}
	options, err := parseCPUOptions(o.CPUOptions)
	if err != nil {
		return nil, fmt.Errorf("new static policy error: %w", err)
	}
	c := &cpus{machine: o.Machine, cpuOptions: options, reserved: o.ReservedCPUs,
		held: map[types.UID]map[string]cpuset.CPUSet{}}
	number := int((reserved.MilliValue() + 999) / 1000)
	if c.reserved.IsEmpty() {
		c.reserved, _ = numa.Take(o.Machine, o.Machine.All(), number, options.oneCache) // too few are an error below
	}
	if c.reserved.Size() != number {
		return nil,
			fmt.Errorf(
				"new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of %s did not equal %d)", c.reserved, number)
	}
	return c, nil
}

// newMemory makes the table of memory; nil for the policy None.
func newMemory(o Options) (*memory, error) {
	switch o.MemoryPolicy {
	case memoryNone:
		return nil, nil
	case memoryStatic:
	default:
		return nil, fmt.Errorf("unknown policy: %q", o.MemoryPolicy)
	}
	kept, err := reservedMemory(o)
	if err != nil {
		return nil, err
	}
	var sum uint64
	for _, list := range kept {
		sum += list[v1.ResourceMemory]
	}
	if sum == 0 {
		return nil, errors.New("[memorymanager] you should specify the system reserved memory")
	}
	return &memory{machine: o.Machine, reserved: kept, held: map[types.UID]map[string][]block{}}, nil
}

// reservedMemory returns what is reserved, by NUMA node and kind of memory.
func reservedMemory(o Options) (map[int]map[v1.ResourceName]uint64, error) {
	out := map[int]map[v1.ResourceName]uint64{}
	sums := v1.ResourceList{}
	for _, r := range o.ReservedMemory {
		node := int(r.NumaNode)
		if !slices.Contains(o.Machine.NodeIDs(), node) {
			return nil,
				fmt.Errorf(
					"the reserved memory configuration references a NUMA node %d that does not exist on this machine",
					node)
		}
		for name, q := range r.Limits {
			if out[node] == nil {
				out[node] = map[v1.ResourceName]uint64{}
			}
			out[node][name] = uint64(q.Value())
			sum := sums[name]
			sum.Add(q)
			sums[name] = sum
		}
	}

	// A kind that is reserved on the node and for no NUMA node is wrong too.
	for name := range o.Reserved {
		if _, named := sums[name]; !named && isMemory(name) {
			sums[name] = *zero()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		is, want := sums[name], o.Reserved[name]
		if is.Cmp(want) != 0 {
			return nil,
				fmt.Errorf(
					"the total amount %q of type %q is not equal to the value %q determined by Node Allocatable feature", is.String(), name, want.String())
		}
	}
	return out, nil
}
