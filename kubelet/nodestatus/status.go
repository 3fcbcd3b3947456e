package nodestatus

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"porthole.dev/porthole/kubelet/device"
	"porthole.dev/porthole/kubelet/runtime"
)

// machineCapacity returns what the machine has, and the extended resources (foreign) that others wrote into the node.
func machineCapacity(o Options, foreign v1.ResourceList) v1.ResourceList {
	pods := o.MaxPods
	if o.PodsPerCore > 0 {
		pods = min(pods, o.PodsPerCore*o.Host.CPUs)
	}
	list := v1.ResourceList{
		v1.ResourceCPU:              *resource.NewMilliQuantity(o.Host.CPUs*1000, resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(o.Host.MemoryBytes, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(o.Host.DiskBytes, resource.BinarySI),
	}

	for page, bytes := range o.Host.HugePages {
		name := v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(page, resource.BinarySI).String())
		list[name] = *resource.NewQuantity(bytes, resource.BinarySI)
	}

	for name, q := range foreign {
		if _, ours := list[name]; !ours {
			list[name] = q
		}
	}
	return list
}

// overlay returns a list with the quantities of over in place of its own.
func overlay(list, over v1.ResourceList) v1.ResourceList {
	for name, q := range over {
		list[name] = q
	}
	return list
}

// allocatable returns what is left of capacity after the reservations. No quantity falls below zero.
func allocatable(capacity v1.ResourceList, reserved ...v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range capacity {
		left := q.DeepCopy()
		for _, r := range reserved {
			if x, ok := r[name]; ok {
				left.Sub(x)
			}
		}
		if left.Sign() < 0 {
			left.Set(0)
		}
		out[name] = left
	}

	for name, q := range capacity { // huge pages are memory that nobody else can have
		if memory, ok := out[v1.ResourceMemory]; ok && strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			memory.Sub(q)
			if memory.Sign() < 0 {
				memory.Set(0)
			}
			out[v1.ResourceMemory] = memory
		}
	}
	return out
}

// status returns the node's status as it should be, over old, the one in the API.
func (n *Node) status(old v1.NodeStatus, now time.Time) v1.NodeStatus {
	version, health := n.links.Runtime()
	health = n.Health(health)
	ending := n.links.ShuttingDown != nil && n.links.ShuttingDown()
	f := statusFacts{version: version, health: health, shuttingDown: ending, images: n.images.Load(),
		pressed: *n.pressed.Load(), devices: n.devices(), now: now}
	if n.o.StorageAwaited != nil {
		f.storageAwaited = n.o.StorageAwaited()
	}
	if n.links.VolumesInUse != nil {
		f.volumesInUse = n.links.VolumesInUse()
	}
	return statusOf(n.o, f, old)
}

// statusFacts are the parts of the node's status that change while the kubelet runs.
type statusFacts struct {
	version runtime.Version
	health  runtime.Health
	// shuttingDown: the machine is about to shut down.
	shuttingDown   bool
	images         *[]v1.ContainerImage // nil if not known yet
	pressed        map[v1.NodeConditionType]bool
	devices        device.Amounts
	volumesInUse   []v1.UniqueVolumeName
	storageAwaited string // why volumes cannot be used yet; empty if they can
	now            time.Time
}

// statusOf returns the node's status as it should be, given old, the status in the API. Fields that others own stay as
// they are. It is pure.
func statusOf(o Options, f statusFacts, old v1.NodeStatus) v1.NodeStatus {
	st := *old.DeepCopy()
	st.Capacity = machineCapacity(o, old.Capacity)
	st.Allocatable = overlay(allocatable(st.Capacity, o.Reserved), f.devices.Allocatable)
	st.Capacity = overlay(st.Capacity, f.devices.Capacity)

	if !o.ExternalCloud || len(old.Addresses) == 0 {
		st.Addresses = addresses(o)
	}
	st.DaemonEndpoints.KubeletEndpoint.Port = o.Port

	h, info := o.Host, &st.NodeInfo
	info.MachineID = h.MachineID
	info.SystemUUID = h.SystemUUID
	info.BootID = h.BootID
	info.KernelVersion = h.KernelVersion
	info.OSImage = h.OSImage
	info.ContainerRuntimeVersion = f.version.Name + "://" + trimV(f.version.Version)
	info.KubeletVersion = o.Version
	info.KubeProxyVersion = "" //lint:ignore SA1019 an older kubelet may have set it; upstream's also empties it
	info.OperatingSystem, info.Architecture = h.OS, h.Arch

	if h.SwapBytes > 0 {
		info.Swap = &v1.NodeSwapStatus{Capacity: &h.SwapBytes}
	}
	if f.images != nil {
		st.Images = *f.images
	}

	st.VolumesInUse = f.volumesInUse
	st.RuntimeHandlers = nil
	for _, x := range f.health.Handlers {
		rro, userns := x.RecursiveReadOnlyMounts, x.UserNamespaces
		st.RuntimeHandlers = append(st.RuntimeHandlers, v1.NodeRuntimeHandler{Name: x.Name,
			Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &rro, UserNamespaces: &userns}})
	}
	st.DeclaredFeatures = o.DeclaredFeatures
	groups := f.health.SupplementalGroupsPolicy
	st.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &groups}

	for _, c := range pressureConditions {
		one := c.without
		if f.pressed[one.Type] {
			one = c.with
		}
		setNodeCondition(&st, one, f.now)
	}
	// Ready is the last of ours, where old schedulers look for it.
	setNodeCondition(&st, readiness(f, st.Capacity), f.now)
	return st
}

// pressureConditions are the conditions without and with each pressure, in the order in which upstream's kubelet lists
// them.
var pressureConditions = []struct{ without, with v1.NodeCondition }{
	{v1.NodeCondition{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
		Message: "kubelet has sufficient memory available"},
		v1.NodeCondition{Type: v1.NodeMemoryPressure, Status: v1.ConditionTrue, Reason: "KubeletHasInsufficientMemory",
			Message: "kubelet has insufficient memory available"}},
	{v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, Reason: "KubeletHasNoDiskPressure",
		Message: "kubelet has no disk pressure"},
		v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue, Reason: "KubeletHasDiskPressure",
			Message: "kubelet has disk pressure"}},
	{v1.NodeCondition{Type: v1.NodePIDPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientPID",
		Message: "kubelet has sufficient PID available"},
		v1.NodeCondition{Type: v1.NodePIDPressure, Status: v1.ConditionTrue, Reason: "KubeletHasInsufficientPID",
			Message: "kubelet has insufficient PID available"}},
}

// addresses returns the addresses that the kubelet sets: only the name if a cloud controller sets the rest.
func addresses(o Options) (out []v1.NodeAddress) {
	if !o.ExternalCloud || o.IPsGiven { // else the taint keeps pods away until the cloud has set them
		for _, ip := range o.IPs() {
			out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
		}
	}
	return append(out, v1.NodeAddress{Type: v1.NodeHostName, Address: o.Name})
}

// readiness returns the condition Ready. Its message names everything that keeps pods from running.
func readiness(f statusFacts, capacity v1.ResourceList) v1.NodeCondition {
	h := f.health
	var errs []error
	if !h.RuntimeReady {
		errs = append(errs, errors.New("container runtime not ready: "+h.RuntimeMessage))
	}
	if !h.NetworkReady {
		errs = append(errs, errors.New("container runtime network not ready: "+h.NetworkMessage))
	}

	var missing []string
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods,
		v1.ResourceEphemeralStorage} {
		if q, ok := capacity[name]; !ok || name != v1.ResourcePods && q.IsZero() {
			missing = append(missing, string(name))
		}
	}
	if f.storageAwaited != "" {
		errs = append(errs, errors.New("storage not ready: "+f.storageAwaited))
	}
	if f.shuttingDown {
		errs = append(errs, errors.New("node is shutting down"))
	}
	if len(missing) > 0 {
		errs = append(errs, errors.New("missing node capacity for resources: "+strings.Join(missing, ", ")))
	}

	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
		Message: "kubelet is posting ready status"}
	if all := utilerrors.NewAggregate(errs); all != nil {
		c.Status = v1.ConditionFalse
		c.Reason = "KubeletNotReady"
		c.Message = all.Error()
	}
	return c
}

// trimV removes the v from a version such as v2.1.0.
func trimV(v string) string {
	if len(v) > 1 && v[0] == 'v' {
		if _, err := strconv.Atoi(v[1:2]); err == nil {
			return v[1:]
		}
	}
	return v
}

// setNodeCondition adds a condition or replaces the one of its type. The transition time stays if the status does.
func setNodeCondition(st *v1.NodeStatus, c v1.NodeCondition, now time.Time) {
	c.LastHeartbeatTime = metav1.NewTime(now)
	c.LastTransitionTime = metav1.NewTime(now)
	i := slices.IndexFunc(st.Conditions, func(old v1.NodeCondition) bool { return old.Type == c.Type })
	if i < 0 {
		st.Conditions = append(st.Conditions, c)
		return
	}
	if st.Conditions[i].Status == c.Status {
		c.LastTransitionTime = st.Conditions[i].LastTransitionTime
	}
	st.Conditions[i] = c
}

// conditionEvents are the reasons of the events when a condition becomes false, and when it becomes true.
var conditionEvents = map[v1.NodeConditionType][2]string{
	v1.NodeMemoryPressure: {"NodeHasSufficientMemory", "NodeHasInsufficientMemory"},
	v1.NodeDiskPressure:   {"NodeHasNoDiskPressure", "NodeHasDiskPressure"},
	v1.NodePIDPressure:    {"NodeHasSufficientPID", "NodeHasInsufficientPID"},
	v1.NodeReady:          {"NodeNotReady", "NodeReady"},
}

// transitions returns the reasons of the events for the conditions that changed. A condition that is new counts as
// changed, except Ready.
func transitions(before, after []v1.NodeCondition) (reasons []string) {
	for _, c := range after {
		names, ours := conditionEvents[c.Type]
		i := slices.IndexFunc(before, func(old v1.NodeCondition) bool { return old.Type == c.Type })
		known := i >= 0
		if !ours || known && before[i].Status == c.Status || !known && c.Type == v1.NodeReady {
			continue
		}
		if c.Status == v1.ConditionTrue {
			reasons = append(reasons, names[1])
		} else {
			reasons = append(reasons, names[0])
		}
	}
	return reasons
}
