package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resources "k8s.io/component-helpers/resource"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/static"
)

// admitter keeps what the admitted pods hold of the node. A pod holds it until its last container has stopped.
type admitter struct {
	mu   sync.Mutex
	held map[types.UID]claim
	// waiting are the resizes that wait for room; granted hears, under the lock, of one that has got it.
	waiting map[types.UID]*waiter
	granted func(types.UID)
}

// claim is what one pod holds.
type claim struct {
	requests v1.ResourceList
	ports    []v1.ContainerPort
}

func claimOf(p *v1.Pod) claim { return claim{requests: requests(p), ports: hostPorts(p)} }

func newAdmitter() *admitter {
	return &admitter{held: map[types.UID]claim{}, waiting: map[types.UID]*waiter{}, granted: func(types.UID) {}}
}

func (m *admitter) release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, held := m.held[uid]
	delete(m.held, uid)
	delete(m.waiting, uid)
	if held {
		m.regrant()
	}
}

// hold gives a pod its place without a question.
func (m *admitter) hold(p *v1.Pod) {
	c := claimOf(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[p.UID] = c
}

// holds tells whether a pod has its place.
func (m *admitter) holds(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.held[uid]
	return ok
}

// refusal is why a pod cannot run here, in the API's words.
type refusal struct{ reason, message string }

// admit takes the pod in or says why not. running is true for a pod that already has containers on the node: it keeps
// its place whatever has changed since.
func (m *admitter) admit(p *v1.Pod, f nodeFacts, running bool) *refusal {
	want := claimOf(p) // before the lock, and once: a pod that cannot be read troubles no other
	m.mu.Lock()
	defer m.mu.Unlock()
	if !running {
		if r := check(p, want, f, m.others(p.UID)); r != nil {
			return r
		}
	}
	m.held[p.UID] = want
	return nil
}

// nodeFacts is what the rules know about the node.
type nodeFacts struct {
	node        *v1.Node
	allocatable v1.ResourceList
	goos        string
	// sysctls are what pods may set; nil lets them set any. noAppArmor says that the kernel enforces no such profiles.
	sysctls    *sysctlRules
	noAppArmor bool
}

const (
	affinity       = "NodeAffinity"
	affinityFailed = "node(s) didn't match Pod's node affinity/selector"
)

// check applies the rules in upstream's order and words (pkg/kubelet/lifecycle/predicate.go of 1.36.3). The first that
// fails is told. It is pure.
func check(p *v1.Pod, want claim, f nodeFacts, others []claim) *refusal {
	if f.sysctls != nil {
		if r := f.sysctls.refuse(p); r != nil {
			return r
		}
	}
	if label, ok := p.Labels[v1.LabelOSStable]; ok && label != f.goos {
		return &refusal{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if p.Spec.OS != nil && string(p.Spec.OS.Name) != f.goos {
		return &refusal{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if groups := f.node.Status.Features; strictGroups(p) && (groups == nil || groups.SupplementalGroupsPolicy == nil || !*groups.SupplementalGroupsPolicy) {
		return &refusal{"SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"}
	}
	if r := fits(want.requests, f.allocatable, others); r != nil {
		return r
	}
	predicate := func(name, why string) *refusal { return &refusal{name, "Predicate " + name + " failed: " + why} }
	if ok, _ := nodeaffinity.GetRequiredNodeAffinity(p).Match(f.node); !ok { // what cannot be read does not match
		return predicate(affinity, affinityFailed)
	}
	if p.Spec.NodeName != "" && p.Spec.NodeName != f.node.Name {
		return predicate("NodeName", "node(s) didn't match the requested node name")
	}
	if slices.ContainsFunc(others, func(o claim) bool { return portsConflict(want.ports, o.ports) }) {
		return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	noExecute := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	_, bad := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), f.node.Spec.Taints, p.Spec.Tolerations, noExecute, false)
	if bad && !static.IsStatic(p) { // a pod of the API says that it is one, see stamped
		return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
	}
	if f.noAppArmor && wantsAppArmor(p) {
		return &refusal{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
	}
	return nil
}

// wantsAppArmor tells whether a container names a profile that the kernel would have to enforce.
func wantsAppArmor(p *v1.Pod) bool {
	enforced := func(a *v1.AppArmorProfile) bool { return a != nil && a.Type != v1.AppArmorProfileTypeUnconfined }
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			own := list[i].SecurityContext
			if own != nil && own.AppArmorProfile != nil {
				if enforced(own.AppArmorProfile) {
					return true
				}
				continue
			}
			if sc := p.Spec.SecurityContext; sc != nil && enforced(sc.AppArmorProfile) {
				return true
			}
		}
	}
	return false
}

func strictGroups(p *v1.Pod) bool {
	sc := p.Spec.SecurityContext
	return sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict
}

// fits compares requests with what is left. Resources that the node does not have are not its own to check: they are the
// scheduler's.
func fits(want, allocatable v1.ResourceList, others []claim) *refusal {
	short := func(name v1.ResourceName, need, used, have int64) *refusal {
		return &refusal{"OutOf" + string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, need, used, have)}
	}
	if limit, ok := allocatable[v1.ResourcePods]; ok && int64(len(others)+1) > limit.Value() {
		return short(v1.ResourcePods, 1, int64(len(others)), limit.Value())
	}
	used := v1.ResourceList{}
	for _, o := range others {
		for name, q := range o.requests {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(want), importance) {
		need, sum := want[name], used[name]
		have, known := allocatable[name]
		if need.IsZero() || !known {
			continue
		}
		total := sum.DeepCopy()
		total.Add(need)
		if total.Cmp(have) > 0 {
			return short(name, amount(name, need), amount(name, sum), amount(name, have))
		}
	}
	return nil
}

// importance puts the three resources that every node has first, then all by name.
func importance(a, b v1.ResourceName) int {
	rank := func(n v1.ResourceName) int {
		if i := slices.Index([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}, n); i >= 0 {
			return i
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

func amount(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// requests of a pod: its containers and sidecars or its largest init container, or what the pod as a whole asks for, and
// the overhead of its runtime.
func requests(p *v1.Pod) v1.ResourceList {
	return resources.PodRequests(p, resources.PodResourcesOptions{})
}

func portsConflict(wanted, held []v1.ContainerPort) bool {
	for _, want := range wanted {
		for _, have := range held {
			if conflict(want, have) {
				return true
			}
		}
	}
	return false
}

func hostPorts(p *v1.Pod) []v1.ContainerPort {
	var out []v1.ContainerPort
	add := func(c *v1.Container) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out = append(out, port)
			}
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers { // sidecars; other init containers share the ports of their successors
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
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
	if s.Static && !k.statics.mayStart(s.Pod) {
		return
	}
	running := len(s.Runtime.Containers) > 0
	if !running && !s.Static && !k.joined.Load() {
		return
	}
	r := k.admit.admit(s.Pod, k.nodeFacts(k.node.Object()), running)
	if r != nil && r.reason == affinity && !k.o.Standalone {
		// The node's labels may have changed a moment ago, and the watch be late: ask once.
		ctx, cancel := context.WithTimeout(k.ctx, affinityTimeout)
		defer cancel()
		if n, err := k.o.API.GetNode(ctx); err == nil {
			r = k.admit.admit(s.Pod, k.nodeFacts(n), running)
		}
	}
	if r == nil {
		s.Admitted = true
		return
	}
	k.o.API.PodEvent(s.Pod, "", v1.EventTypeWarning, r.reason, r.message)
	s.Stop = &pod.Stop{Reason: r.reason, Message: "Pod was rejected: " + r.message, Phase: v1.PodFailed, Rejected: true}
}

// affinityTimeout bounds the question for the node's labels; without an answer those that are known count.
const affinityTimeout = 5 * time.Second

func (k *Kubelet) nodeFacts(n *v1.Node) nodeFacts {
	return nodeFacts{node: n, allocatable: k.node.Allocatable(n), goos: k.o.Node.Host.OS, sysctls: k.sysctls,
		noAppArmor: !k.o.Windows && !k.o.Node.Host.AppArmor}
}
