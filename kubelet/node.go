package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"

	alloc "porthole.dev/porthole/kubelet/resource"
)

// nodeLabels are the labels that every node has, with those that the user asked for over them.
func (k *Kubelet) nodeLabels() map[string]string {
	h := k.o.Host
	l := map[string]string{v1.LabelHostname: k.o.NodeName, v1.LabelOSStable: h.OS, v1.LabelArchStable: h.Arch,
		"beta.kubernetes.io/os": h.OS, "beta.kubernetes.io/arch": h.Arch}
	if h.WindowsRelease != "" {
		l[v1.LabelWindowsBuild] = h.WindowsRelease
	}
	maps.Copy(l, k.o.Labels)
	return l
}

const attachByController = "volumes.kubernetes.io/controller-managed-attach-detach"

// register creates the node object, or gives an existing one our labels. It tries until ctx ends.
func (k *Kubelet) register(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 7*time.Second) {
		err := k.registerOnce(ctx)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, "Registering the node failed", "node", k.o.NodeName)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (k *Kubelet) registerOnce(ctx context.Context) error {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.o.NodeName, Labels: k.nodeLabels(),
		Annotations: map[string]string{attachByController: "true"}}, Spec: v1.NodeSpec{Taints: k.o.Taints}}
	n.Status = k.nodeStatus(nil, time.Now())
	made, err := k.o.API.CreateNode(ctx, n)
	if err == nil {
		k.node.Store(made)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating node %s: %w", k.o.NodeName, err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": k.nodeLabels(),
		"annotations": map[string]string{attachByController: "true"}}})
	if err != nil {
		return err
	}
	have, err := k.o.API.PatchNode(ctx, patch)
	if err != nil {
		return fmt.Errorf("updating the labels of node %s: %w", k.o.NodeName, err)
	}
	k.node.Store(have)
	return nil
}

// runNode keeps the node's status right: at once when something changes, and by the clock.
func (k *Kubelet) runNode(ctx context.Context) {
	cidr := ""
	k.o.API.WatchNode(ctx, func(n *v1.Node) {
		k.node.Store(n)
		if n.Spec.PodCIDR != "" && n.Spec.PodCIDR != cidr {
			cidr = n.Spec.PodCIDR
			k.running.Go(func() {
				if err := k.o.Runtime.SetPodCIDR(ctx, n.Spec.PodCIDR); err != nil {
					klog.FromContext(ctx).Error(err, "Passing on the pod CIDR failed")
				}
				k.checkRuntime(ctx)
			})
		}
	})
	status := time.NewTicker(k.o.StatusPeriod)
	defer status.Stop()
	health := time.NewTicker(500 * time.Millisecond)
	defer health.Stop()
	var sent, asked time.Time
	for {
		if err := k.reportNode(ctx, &sent); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Reporting the node's status failed")
		}
	wait:
		for {
			select {
			case <-ctx.Done():
				return
			case <-health.C: // often while something is missing, seldom when all is well
				h := k.health.Load()
				if !h.NetworkReady || !h.RuntimeReady || time.Since(asked) > 5*time.Second {
					asked = time.Now()
					k.checkRuntime(ctx)
				}
			case <-status.C:
				break wait
			case <-k.nodeChanged:
				break wait
			}
		}
	}
}

// reportNode sends what differs from the API, or a sign of life when that is due.
func (k *Kubelet) reportNode(ctx context.Context, sent *time.Time) error {
	n := k.node.Load()
	now := time.Now()
	want := k.nodeStatus(&n.Status, now)
	if time.Since(*sent) < k.o.ReportPeriod && equality.Semantic.DeepEqual(withoutBeats(want), withoutBeats(n.Status)) {
		return nil
	}
	before, err := json.Marshal(v1.Node{Status: n.Status})
	if err != nil {
		return err
	}
	after, err := json.Marshal(v1.Node{Status: want})
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Node{})
	if err != nil {
		return fmt.Errorf("comparing node statuses: %w", err)
	}
	got, err := k.o.API.PatchNodeStatus(ctx, patch)
	if err != nil {
		if apierrors.IsNotFound(err) { // somebody deleted the node: it still exists, so it registers again
			return k.registerOnce(ctx)
		}
		return err
	}
	k.nodeEvents(n.Status.Conditions, got.Status.Conditions)
	k.node.Store(got)
	*sent = now
	return nil
}

func (k *Kubelet) nodeEvents(before, after []v1.NodeCondition) {
	ready := func(list []v1.NodeCondition) bool {
		for _, c := range list {
			if c.Type == v1.NodeReady {
				return c.Status == v1.ConditionTrue
			}
		}
		return false
	}
	if was, is := ready(before), ready(after); was != is {
		name := "NodeNotReady"
		if is {
			name = "NodeReady"
		}
		k.o.API.NodeEvent(v1.EventTypeNormal, name, fmt.Sprintf("Node %s status is now: %s", k.o.NodeName, name))
	}
}

func withoutBeats(s v1.NodeStatus) v1.NodeStatus {
	out := *s.DeepCopy()
	for i := range out.Conditions {
		out.Conditions[i].LastHeartbeatTime = metav1.Time{}
		out.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return out
}

// capacity is what the machine has, and the extended resources that others wrote into the node.
func (k *Kubelet) capacity(n *v1.Node) v1.ResourceList {
	h := k.o.Host
	list := v1.ResourceList{
		v1.ResourceCPU:              *resource.NewMilliQuantity(h.CPUs*1000, resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(h.MemoryBytes, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(k.o.MaxPods, resource.DecimalSI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(h.DiskBytes, resource.BinarySI),
	}
	if n != nil {
		for name, q := range n.Status.Capacity {
			if _, ours := list[name]; !ours {
				list[name] = q
			}
		}
	}
	return list
}

func (k *Kubelet) allocatable(capacity v1.ResourceList) v1.ResourceList {
	return alloc.Allocatable(capacity, k.o.Reserved)
}

// nodeStatus is the node's status as it should be; old is what the API has, if anything.
func (k *Kubelet) nodeStatus(old *v1.NodeStatus, now time.Time) v1.NodeStatus {
	var st v1.NodeStatus
	if old != nil {
		st = *old.DeepCopy()
	}
	st.Capacity = k.capacity(k.node.Load())
	st.Allocatable = k.allocatable(st.Capacity)
	st.Addresses = nil
	for _, ip := range k.o.NodeIPs {
		st.Addresses = append(st.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	st.Addresses = append(st.Addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: k.o.NodeName})
	st.DaemonEndpoints.KubeletEndpoint.Port = k.o.Port
	h, v := k.o.Host, k.version.Load()
	st.NodeInfo = v1.NodeSystemInfo{MachineID: h.MachineID, SystemUUID: h.SystemUUID, BootID: h.BootID, KernelVersion: h.KernelVersion,
		OSImage: h.OSImage, ContainerRuntimeVersion: v.Name + "://" + trimV(v.Version), KubeletVersion: k.o.Version,
		OperatingSystem: h.OS, Architecture: h.Arch}
	st.RuntimeHandlers = nil
	health := k.health.Load()
	for _, x := range health.Handlers {
		rro, userns := x.RecursiveReadOnlyMounts, x.UserNamespaces
		st.RuntimeHandlers = append(st.RuntimeHandlers, v1.NodeRuntimeHandler{Name: x.Name,
			Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &rro, UserNamespaces: &userns}})
	}
	groups := health.SupplementalGroupsPolicy
	st.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &groups}
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	switch {
	case !health.RuntimeReady:
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", "container runtime not ready: "+health.RuntimeMessage
	case !health.NetworkReady:
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "KubeletNotReady", "container runtime network not ready: "+health.NetworkMessage
	}
	for _, c := range []v1.NodeCondition{
		{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: v1.NodePIDPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		ready,
	} {
		setNodeCondition(&st, c, now)
	}
	return st
}

func trimV(v string) string {
	if len(v) > 1 && v[0] == 'v' {
		if _, err := strconv.Atoi(v[1:2]); err == nil {
			return v[1:]
		}
	}
	return v
}

func setNodeCondition(st *v1.NodeStatus, c v1.NodeCondition, now time.Time) {
	c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	for i, old := range st.Conditions {
		if old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			st.Conditions[i] = c
			return
		}
	}
	st.Conditions = append(st.Conditions, c)
}
