package kubelet

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
)

// admitter keeps what the admitted pods hold of the node. A pod holds it until its last container has stopped.
type admitter struct {
	mu   sync.Mutex
	held map[types.UID]*v1.Pod
}

func newAdmitter() *admitter { return &admitter{held: map[types.UID]*v1.Pod{}} }

func (m *admitter) release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, uid)
}

// holds tells whether a pod has its place.
func (m *admitter) holds(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[uid] != nil
}

// refusal is why a pod cannot run here, in the API's words.
type refusal struct{ reason, message string }

// admit takes the pod in or says why not. running is true for a pod that already has containers on the node: it keeps
// its place whatever has changed since.
func (m *admitter) admit(p *v1.Pod, n *v1.Node, allocatable v1.ResourceList, goos string, running bool) *refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !running {
		others := make([]*v1.Pod, 0, len(m.held))
		for uid, o := range m.held {
			if uid != p.UID {
				others = append(others, o)
			}
		}
		if r := check(p, n, allocatable, others, goos); r != nil {
			return r
		}
	}
	m.held[p.UID] = p
	return nil
}

// check applies the rules in upstream's order. It is pure.
func check(p *v1.Pod, n *v1.Node, allocatable v1.ResourceList, others []*v1.Pod, goos string) *refusal {
	if label, ok := p.Labels[v1.LabelOSStable]; ok && label != goos {
		return &refusal{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if p.Spec.OS != nil && string(p.Spec.OS.Name) != goos {
		return &refusal{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if n != nil {
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err == nil && !ok {
			return &refusal{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
		}
		noExecute := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
		if _, bad := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, noExecute, false); bad {
			return &refusal{"TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}
		}
	}
	if r := fits(p, allocatable, others); r != nil {
		return r
	}
	for _, want := range hostPorts(p) {
		for _, o := range others {
			for _, have := range hostPorts(o) {
				if conflict(want, have) {
					return &refusal{"NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
				}
			}
		}
	}
	return nil
}

func fits(p *v1.Pod, allocatable v1.ResourceList, others []*v1.Pod) *refusal {
	if limit, ok := allocatable[v1.ResourcePods]; ok && int64(len(others)+1) > limit.Value() {
		return &refusal{"OutOfpods", fmt.Sprintf("Node didn't have enough resource: pods, requested: 1, used: %d, capacity: %d", len(others), limit.Value())}
	}
	want := requests(p)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage} {
		need := want[name]
		have, known := allocatable[name]
		if need.IsZero() || !known {
			continue
		}
		used := resource.Quantity{}
		for _, o := range others {
			used.Add(requests(o)[name])
		}
		sum := used.DeepCopy()
		sum.Add(need)
		if sum.Cmp(have) > 0 {
			return &refusal{"OutOf" + string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %s, used: %s, capacity: %s",
				name, amount(name, need), amount(name, used), amount(name, have))}
		}
	}
	return nil
}

func amount(name v1.ResourceName, q resource.Quantity) string {
	if name == v1.ResourceCPU {
		return fmt.Sprint(q.MilliValue())
	}
	return fmt.Sprint(q.Value())
}

// requests of a pod: the sum of its containers (sidecars included) or its largest init container, and its overhead.
func requests(p *v1.Pod) v1.ResourceList {
	sum, side, biggest := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	add := func(to, more v1.ResourceList) {
		for name, q := range more {
			x := to[name]
			x.Add(q)
			to[name] = x
		}
	}
	for i := range p.Spec.Containers {
		add(sum, p.Spec.Containers[i].Resources.Requests)
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(sum, c.Resources.Requests)
			add(side, c.Resources.Requests)
			continue
		}
		step := side.DeepCopy()
		if step == nil {
			step = v1.ResourceList{}
		}
		add(step, c.Resources.Requests)
		for name, q := range step {
			if x := biggest[name]; q.Cmp(x) > 0 {
				biggest[name] = q
			}
		}
	}
	for name, q := range biggest {
		if x := sum[name]; q.Cmp(x) > 0 {
			sum[name] = q
		}
	}
	add(sum, p.Spec.Overhead)
	return sum
}

func hostPorts(p *v1.Pod) []v1.ContainerPort {
	var out []v1.ContainerPort
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				out = append(out, port)
			}
		}
	}
	return out
}

func conflict(a, b v1.ContainerPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return a.HostPort == b.HostPort && a.Protocol == b.Protocol && (a.HostIP == b.HostIP || wild(a.HostIP) || wild(b.HostIP))
}

// admission decides once about the actor's pod.
func (k *Kubelet) admission(a *actor) {
	s := &a.state
	if s.Admitted || s.Stop != nil || s.Pod == nil || s.Runtime == nil || s.Gone || s.Pod.DeletionTimestamp != nil ||
		s.Pod.Status.Phase == v1.PodFailed || s.Pod.Status.Phase == v1.PodSucceeded {
		return
	}
	running := len(s.Runtime.Containers) > 0
	r := k.admit.admit(s.Pod, k.node.Load(), k.NodeAllocatable(), k.o.Host.OS, running)
	if r == nil {
		s.Admitted = true
		return
	}
	k.o.API.PodEvent(s.Pod, "", v1.EventTypeWarning, r.reason, r.message)
	s.Stop = &pod.Stop{Reason: r.reason, Message: "Pod was rejected: " + r.message, Phase: v1.PodFailed, Rejected: true}
}
