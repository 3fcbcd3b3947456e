package kubelet

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/allot"
	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/numa"
	"porthole.dev/porthole/kubelet/pin"
)

// maxTopologyNodes is how many NUMA nodes a machine may have if the topology manager has a policy: each one doubles
// the number of hints (pkg/kubelet/cm/topologymanager of 1.36.3).
const maxTopologyNodes = 8

// readMachine reads where processors and memory are. Windows has no such files, and upstream's kubelet gives nothing
// alone there either unless an alpha feature is on.
//
// A machine that cannot be read is no reason not to start, unless the configuration gives something alone: it is nil
// then.
func readMachine(ctx context.Context, cfg *v1beta1.KubeletConfiguration, sys fs.FS, host platform.Host) (*numa.Machine,
	error) {
	if platform.IsWindows {
		return nil, nil
	}
	m, err := numa.Read(sys, uint64(host.MemoryBytes))
	if err != nil && !givesAlone(cfg) {
		klog.FromContext(ctx).Error(err,
			"The machine's processors and memory are not known; nobody is to have any alone")
		return nil, nil
	}
	return m, err
}

// givesAlone reports whether the configuration needs to know where processors and memory are.
func givesAlone(cfg *v1beta1.KubeletConfiguration) bool {
	return cfg.CPUManagerPolicy != "none" || cfg.MemoryManagerPolicy != "None" ||
		cfg.TopologyManagerPolicy != numa.PolicyNone || cfg.ReservedSystemCPUs != ""
}

// reserveCPUs applies reservedSystemCPUs: these processors are what is reserved, whatever else the configuration
// reserves of them.
func reserveCPUs(cfg *v1beta1.KubeletConfiguration, m *numa.Machine) (cpuset.CPUSet, error) {
	if cfg.ReservedSystemCPUs == "" || m == nil {
		return cpuset.New(), nil
	}
	set, err := cpuset.Parse(cfg.ReservedSystemCPUs)
	if err != nil {
		return set, fmt.Errorf("unable to parse reserved-cpus list: %w", err)
	}
	if all := m.All(); !set.IsSubsetOf(all) {
		return set, fmt.Errorf("reserved-cpus: %s is not a subset of online-cpus: %s", cfg.ReservedSystemCPUs, all)
	}
	cfg.KubeReserved, cfg.SystemReserved = maps.Clone(cfg.KubeReserved), maps.Clone(cfg.SystemReserved)
	delete(cfg.KubeReserved, "cpu")
	if cfg.SystemReserved == nil {
		cfg.SystemReserved = map[string]string{}
	}
	cfg.SystemReserved["cpu"] = strconv.Itoa(set.Size())
	return set, nil
}

// givePins reads what the configuration says about processors, memory and how they lie to each other.
func (p *parts) givePins(context.Context) (err error) {
	cfg, m := p.cfg, p.machine.Machine
	if m == nil {
		return nil
	}
	if p.pinned.topology, err = topology(cfg, m); err != nil {
		return err
	}
	p.pinned.manager, err = pin.New(pin.Options{Dir: p.host.root, Machine: m, CPUPolicy: cfg.CPUManagerPolicy,
		CPUOptions: cfg.CPUManagerPolicyOptions, MemoryPolicy: cfg.MemoryManagerPolicy, ReservedCPUs: p.machine.kept,
		ReservedMemory: cfg.ReservedMemory, Reserved: p.machine.reserved, Alive: p.pods.Alive})
	p.pinned.noQuota = config.On(cfg.FeatureGates, "DisableCPUQuotaWithExclusiveCPUs")
	return err
}

// topology reads how the resources of a pod have to lie to each other.
func topology(cfg *v1beta1.KubeletConfiguration, m *numa.Machine) (allot.Topology, error) {
	out := allot.Topology{Policy: numa.Policy{Name: cfg.TopologyManagerPolicy, Machine: m},
		WholePod: cfg.TopologyManagerScope == "pod"}
	if out.Name == numa.PolicyNone {
		return out, nil
	}

	most := maxTopologyNodes
	for _, name := range slices.Sorted(maps.Keys(cfg.TopologyManagerPolicyOptions)) {
		text := cfg.TopologyManagerPolicyOptions[name]
		var err error
		switch name {
		case "prefer-closest-numa-nodes":
			if out.Closest, err = strconv.ParseBool(text); err != nil {
				return out, fmt.Errorf("bad value for option %q: %w", name, err)
			}
		case "max-allowable-numa-nodes":
			if most, err = strconv.Atoi(text); err != nil {
				return out, fmt.Errorf("unable to convert policy option to integer %q: %w", name, err)
			}
			if most < maxTopologyNodes {
				return out, fmt.Errorf("the minimum value of %q should not be less than %v", name, maxTopologyNodes)
			}
		default:
			return out, fmt.Errorf("unknown Topology Manager Policy option: %q", name)
		}
	}

	if len(m.Nodes) > most {
		return out, fmt.Errorf("unsupported on machines with more than %v NUMA Nodes", most)
	}
	return out, nil
}
