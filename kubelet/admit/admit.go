package admit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	declared "k8s.io/component-helpers/nodedeclaredfeatures"
	declaredtypes "k8s.io/component-helpers/nodedeclaredfeatures/types"
	resources "k8s.io/component-helpers/resource"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// Admitter keeps what the admitted pods hold of the node. A pod holds it until its last container has stopped. It is
// safe for concurrent use.
type Admitter struct {
	// Granted is called when the room for a resize that waited has become free. It is called under a lock: it must not
	// block, nor call the Admitter.
	Granted func(types.UID)

	mu      sync.Mutex
	held    map[types.UID]claim
	waiting map[types.UID]*waiter   // resizes that wait for room
	yields  map[types.UID]types.UID // pods that end to make room, by the critical pod for which they do
}

// New returns an Admitter of a node that no pod holds anything of.
func New() *Admitter {
	return &Admitter{held: map[types.UID]claim{}, waiting: map[types.UID]*waiter{}, yields: map[types.UID]types.UID{},
		Granted: func(types.UID) {}}
}

// claim is what one pod holds, and how it stands among others.
type claim struct {
	requests v1.ResourceList
	ports    []v1.ContainerPort
	class    v1.PodQOSClass
	priority *int32
	critical bool
}

func claimOf(p *v1.Pod) claim {
	return claim{requests: requests(p), ports: hostPorts(p), class: p.Status.QOSClass, priority: p.Spec.Priority,
		critical: desired.IsCritical(p)}
}

// Release takes what a pod held for those that wait. Releasing twice does nothing.
func (m *Admitter) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, held := m.held[uid]
	delete(m.held, uid)
	delete(m.waiting, uid)
	for victim, critical := range m.yields {
		if critical == uid {
			delete(m.yields, victim) // what it gives up is for anybody
		}
	}
	if critical, yielded := m.yields[uid]; yielded {
		delete(m.yields, uid)
		m.Granted(critical)
	}
	if held {
		m.regrant()
	}
}

// Hold gives a pod its place without applying the rules.
func (m *Admitter) Hold(p *v1.Pod) {
	c := claimOf(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[p.UID] = c
}

// Holds reports whether a pod has its place.
func (m *Admitter) Holds(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.held[uid]
	return ok
}

// Refusal is why a pod cannot run here, in upstream's words.
type Refusal struct{ Reason, Message string }

// Admit gives the pod its place, or returns why it cannot run here. running is true for a pod that already has
// containers on the node: it keeps its place whatever has changed since.
func (m *Admitter) Admit(p *v1.Pod, f Node, running bool) *Refusal {
	want := claimOf(p) // before the lock: a panic over a pod that cannot be read concerns no other
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

// Node is what the rules know about the node.
type Node struct {
	Object      *v1.Node
	Allocatable v1.ResourceList
	// OS is the node's operating system, as in the label kubernetes.io/os.
	OS string
	// Sysctls are what pods may set; nil lets them set any.
	Sysctls *Sysctls
	// Features are those that the node declares; pods that need others are refused.
	Features []string
	// NoAppArmor says that the kernel enforces no AppArmor profiles.
	NoAppArmor bool
}

// OutOf begins the reason of a refusal because the node has too little of a resource, whose name follows.
const OutOf = "OutOf"

// AffinityReason is the reason of a refusal because of the node's labels, which may have changed since they were read.
const AffinityReason = "NodeAffinity"

const affinityFailed = "node(s) didn't match Pod's node affinity/selector"

// check applies the rules in upstream's order and words (pkg/kubelet/lifecycle/predicate.go of 1.36.3). It returns the
// first refusal. It is pure.
func check(p *v1.Pod, want claim, f Node, others []claim) *Refusal {
	if r := checkSystem(p, f); r != nil {
		return r
	}
	if r := fits(want.requests, f.Allocatable, others); r != nil {
		return r
	}
	return checkPlace(p, want, f, others)
}

// checkSystem compares the pod with what the node's system is and can do.
func checkSystem(p *v1.Pod, f Node) *Refusal {
	if f.Sysctls != nil {
		if r := f.Sysctls.refuse(p); r != nil {
			return r
		}
	}

	if label, ok := p.Labels[v1.LabelOSStable]; ok && label != f.OS {
		return &Refusal{"PodOSSelectorNodeLabelDoesNotMatch",
			"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if p.Spec.OS != nil && string(p.Spec.OS.Name) != f.OS {
		return &Refusal{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if groups := f.Object.Status.Features; strictGroups(p) &&
		(groups == nil || groups.SupplementalGroupsPolicy == nil || !*groups.SupplementalGroupsPolicy) {
		return &Refusal{"SupplementalGroupsPolicyNotSupported",
			"SupplementalGroupsPolicy=Strict is not supported in this node"}
	}
	if r := lacks(p, f.Features); r != nil {
		return r
	}
	return nil
}

// checkPlace compares the pod with the node's labels, name and taints, and with the ports that are taken.
func checkPlace(p *v1.Pod, want claim, f Node, others []claim) *Refusal {
	predicate := func(name, why string) *Refusal { return &Refusal{name, "Predicate " + name + " failed: " + why} }
	if ok, _ := nodeaffinity.GetRequiredNodeAffinity(p).Match(f.Object); !ok { // what cannot be read does not match
		return predicate(AffinityReason, affinityFailed)
	}
	if p.Spec.NodeName != "" && p.Spec.NodeName != f.Object.Name {
		return predicate("NodeName", "node(s) didn't match the requested node name")
	}
	if slices.ContainsFunc(others, func(o claim) bool { return portsConflict(want.ports, o.ports) }) {
		return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}

	noExecute := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	_, bad := corehelpers.FindMatchingUntoleratedTaint(logr.Discard(), f.Object.Spec.Taints, p.Spec.Tolerations,
		noExecute, false)
	if bad && !desired.IsStatic(p) { // a pod of the API says that it is one, see stamped
		return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
	}
	if f.NoAppArmor && wantsAppArmor(p) {
		return &Refusal{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
	}

	return nil
}

// listVersion is that of the list of features.
var listVersion = version.MustParseSemantic("1.36.3")

// lacks refuses a pod that needs a feature which the node does not declare.
func lacks(p *v1.Pod, features []string) *Refusal {
	all := declared.DefaultFramework
	needs, err := all.InferForPodScheduling(&declaredtypes.PodInfo{Spec: &p.Spec, Status: &p.Status}, listVersion)
	if err != nil || needs.IsEmpty() {
		return nil
	}
	match, err := all.MatchNodeFeatureSet(needs, all.TryMap(features))
	if err != nil || match.IsMatch {
		return nil
	}
	return &Refusal{"PodFeatureUnsupported",
		"Pod requires node features that are not available: " + strings.Join(match.UnsatisfiedRequirements, ", ")}
}

// wantsAppArmor reports whether a container names a profile that the kernel would have to enforce.
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
	return sc != nil && sc.SupplementalGroupsPolicy != nil &&
		*sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict
}

// fits compares requests with what is left of the node. Resources that the node does not have are not checked: they
// are the scheduler's.
func fits(want, allocatable v1.ResourceList, others []claim) *Refusal {
	short := func(name v1.ResourceName, need, used, have int64) *Refusal {
		return &Refusal{OutOf + string(name),
			fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, need, used,
				have)}
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

// importance orders resources: the three that every node has first, then by name.
func importance(a, b v1.ResourceName) int {
	rank := func(n v1.ResourceName) int {
		if i := slices.Index([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage},
			n); i >= 0 {
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

// requests of a pod: its containers and sidecars or its largest init container, or what the pod as a whole asks for,
// and the overhead of its runtime.
func requests(p *v1.Pod) v1.ResourceList {
	return resources.PodRequests(withoutClaimed(p), resources.PodResourcesOptions{})
}

// withoutClaimed returns p without its requests for extended resources that a ResourceClaim satisfies
// (DRAExtendedResource). They do not count against the node's allocatable resource of that name: it belongs to a
// device plugin, and is 0 if there is none.
func withoutClaimed(p *v1.Pod) *v1.Pod {
	st := p.Status.ExtendedResourceClaimStatus
	if st == nil {
		return p
	}
	p = p.DeepCopy()
	for _, m := range st.RequestMappings {
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if list[i].Name == m.ContainerName {
					delete(list[i].Resources.Requests, v1.ResourceName(m.ResourceName))
				}
			}
		}
	}
	return p
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

// hostPorts returns the ports of the node that the pod holds for as long as it runs. Those of init containers that end
// are left out: they are free again before the regular containers start, so upstream's scheduler and kubelet do not
// count them either.
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
	for i := range p.Spec.InitContainers { // sidecars only
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil &&
			*c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return out
}

func conflict(a, b v1.ContainerPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return a.HostPort == b.HostPort && a.Protocol == b.Protocol &&
		(a.HostIP == b.HostIP || wild(a.HostIP) || wild(b.HostIP))
}
