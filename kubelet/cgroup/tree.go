package cgroup

import (
	"errors"
	"path"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resources "k8s.io/component-helpers/resource"
)

// Tree is the part of the node's cgroup tree in which pods live: <root>/kubepods[/<class>]/pod<uid>, upstream's layout.
// Its methods may be repeated. They are safe for concurrent use on different pods.
type Tree struct{ root string }

// New returns the tree below root, a path in the cgroup tree; "" is the top. It does not touch the system.
func New(root string) Tree { return Tree{root} }

// Path returns the cgroup of a pod, in which the runtime puts the pod's containers.
func (t Tree) Path(p *v1.Pod) string {
	return path.Join("/", t.root, "kubepods", classFolders[p.Status.QOSClass], "pod"+string(p.UID))
}

var classFolders = map[v1.PodQOSClass]string{v1.PodQOSGuaranteed: "", v1.PodQOSBurstable: "burstable", v1.PodQOSBestEffort: "besteffort"}

// Ensure makes the cgroup of a pod, and sets the limits that its spec asks for.
func (t Tree) Ensure(p *v1.Pod) error { return ensure(t.Path(p), limitsOf(p)) }

// Resize gives the cgroup of a pod the limits that its spec asks for now: those that grow before change is called,
// which changes what is below it, and those that shrink after. If change fails, nothing shrinks. It fails before it
// changes anything if the memory limit would fall below what is in use.
func (t Tree) Resize(p *v1.Pod, change func() error) error {
	return resize(t.Path(p), limitsOf(p), change)
}

// Memory returns the working set of all pods together. It returns an error that is os.ErrNotExist before the first pod.
func (t Tree) Memory() (uint64, error) { return memoryOf(path.Join("/", t.root, "kubepods")) }

// RemovePod removes the cgroup of the pod with that UID, of any class. It succeeds if there is no such cgroup.
func (t Tree) RemovePod(uid types.UID) error { return t.removeBelow(uid, "") }

// RemoveContainer removes the cgroup of one container, which has ended, and kills what is left in it. That is needed
// where a start was cut short by the end of a kubelet: the runtime does not remove the container while a process of it
// is left.
func (t Tree) RemoveContainer(uid types.UID, id string) error { return t.removeBelow(uid, id) }

// removeBelow tries the folders of all classes, because nobody may know the pod's class any more.
func (t Tree) removeBelow(uid types.UID, name string) error {
	var errs []error
	for class := range classFolders {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: v1.PodStatus{QOSClass: class}}
		errs = append(errs, Remove(path.Join(t.Path(p), name)))
	}
	return errors.Join(errs...)
}

// None stands for a Tree on a system without cgroups. Its methods do nothing.
type None struct{}

// Path returns "": the runtime chooses.
func (None) Path(*v1.Pod) string { return "" }

// Ensure does nothing: the runtime limits containers by other means (on Windows, job objects).
func (None) Ensure(*v1.Pod) error { return nil }

// Resize only calls change.
func (None) Resize(_ *v1.Pod, change func() error) error { return change() }

// RemovePod does nothing.
func (None) RemovePod(types.UID) error { return nil }

// RemoveContainer does nothing.
func (None) RemoveContainer(types.UID, string) error { return nil }

// limits of one pod's cgroup; a zero is no limit. Shares are cpu.shares, quota is microseconds per period, memory
// bytes.
type limits struct {
	shares, quota, memory int64
}

// Bounds of cpu.shares, and the smallest quota per period of 100 ms, in microseconds; both are the kernel's.
const (
	minShares, maxShares = 2, 262144
	minQuota             = 1000
)

// limitsOf adds up what a pod asks for, with the overhead of its runtime. A limit counts only if every container has
// one, or the pod as a whole.
func limitsOf(p *v1.Pod) limits {
	cpuAll, memAll := true, true
	requests := resources.PodRequests(p, resources.PodResourcesOptions{})
	most := resources.PodLimits(p, resources.PodResourcesOptions{ContainerFn: func(l v1.ResourceList, _ resources.ContainerType) {
		cpuAll = cpuAll && !l.Cpu().IsZero()
		memAll = memAll && !l.Memory().IsZero()
	}})
	if whole := p.Spec.Resources; whole != nil {
		cpuAll = cpuAll || !whole.Limits.Cpu().IsZero()
		memAll = memAll || !whole.Limits.Memory().IsZero()
	}

	l := limits{shares: min(max(requests.Cpu().MilliValue()*1024/1000, minShares), maxShares)}
	if cpuAll && !most.Cpu().IsZero() {
		l.quota = max(most.Cpu().MilliValue()*100, minQuota)
	}
	if memAll {
		l.memory = most.Memory().Value()
	}
	return l
}
