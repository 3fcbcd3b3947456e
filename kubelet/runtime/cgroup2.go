package runtime

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// Cgroups says what the node's cgroups can do beyond the limits that each version has (Linux). Zero is a node that
// does none of it.
type Cgroups struct {
	// Version is 1 or 2.
	Version int
	// SingleProcessOOMKill leaves a container's other processes alone when one is ended because the container is out
	// of memory. Otherwise all of them end, which takes cgroup v2.
	SingleProcessOOMKill bool
	// LimitsSwap says that the kernel can limit swap space.
	LimitsSwap bool
	// SwapBehavior is memorySwap.swapBehavior of the configuration: NoSwap, which is the default, or LimitedSwap.
	SwapBehavior string
	// SwapBytes is the size of the node's swap space.
	SwapBytes int64
}

// limitedSwap is the value of the kubelet's memorySwap.swapBehavior with which containers may swap.
const limitedSwap = "LimitedSwap"

// limit adds what o.Cgroups can do to the limits of a container, as upstream does.
func (o Options) limit(p *v1.Pod, c *v1.Container, out *cri.LinuxContainerResources) {
	g := o.Cgroups
	files := map[string]string{}
	if g.Version == 2 && !g.SingleProcessOOMKill {
		files["memory.oom.group"] = "1"
	}

	switch {
	case !g.LimitsSwap:
	case g.Version == 2:
		files["memory.swap.max"] = strconv.FormatInt(o.swapOf(p, c), 10)
	default: // the limit of memory and swap together; none without a limit of memory
		out.MemorySwapLimitInBytes = out.MemoryLimitInBytes
	}

	if len(files) > 0 {
		out.Unified = files
	}
}

// swapOf is the swap space that a container may use, in bytes. With LimitedSwap it is the container's share of the
// node's, as its request is of the node's memory, but only for containers of burstable pods that may use more memory
// than they ask for (KEP 2400).
func (o Options) swapOf(p *v1.Pod, c *v1.Container) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	if o.Cgroups.SwapBehavior != limitedSwap || desired.IsCritical(p) || p.Status.QOSClass != v1.PodQOSBurstable {
		return 0
	}
	if request.IsZero() || request.Cmp(*limit) == 0 || o.MemoryBytes <= 0 || request.Value() > o.MemoryBytes {
		return 0
	}
	return int64(float64(request.Value()) / float64(o.MemoryBytes) * float64(o.Cgroups.SwapBytes))
}
