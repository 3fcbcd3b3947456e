package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resources "k8s.io/component-helpers/resource"
)

// Tree is the part of the node's cgroup tree in which pods live: <root>/kubepods[/<class>]/pod<uid>, upstream's
// layout. It says which cgroups there are, with what limits, and a driver makes them. Its methods may be repeated.
// They are safe for concurrent use on different pods.
type Tree struct {
	root []string
	// by is the driver, which all copies of the tree share; undecided until Use. decide says in Begin which one it is.
	by     *atomic.Pointer[driver]
	decide func(context.Context) (string, error)
	// unlimited reports whether a pod has no CPU quota whatever its limits say; nil for none.
	unlimited func(*v1.Pod) bool
	// most is what all pods together may have; nil sets no limit.
	most v1.ResourceList
	// pids is how many processes and threads a pod may have; 0 for any number.
	pids int64
	// noQuota says that limits of processors are no quotas; period is that of quotas in microseconds, 0 for upstream's
	// default.
	noQuota bool
	period  int64
	// reserved are cgroups outside of the pods' that Share limits too.
	reserved []Reserved
}

// Reserved is a cgroup that others made, of the system or of the node's own programs, and what it may have at most:
// what the configuration reserves for it.
type Reserved struct {
	// Name is the cgroup's path or, with systemd, the name of its slice, such as /system.slice.
	Name string
	// Most are its processors, memory, and process ids ("pid"); what is not named stays as it is.
	Most v1.ResourceList
	// Compressible leaves all but processors alone.
	Compressible bool
}

// New returns the tree below root, a path in the cgroup tree; "" is the top. It does not touch the system. No method
// makes a cgroup before Begin or Use.
func New(root string) Tree {
	t := Tree{by: &atomic.Pointer[driver]{}}
	for name := range strings.SplitSeq(root, "/") {
		if name != "" {
			t.root = append(t.root, name)
		}
	}
	var none driver = undecided{}
	t.by.Store(&none)
	return t
}

// Use sets the cgroup driver, Cgroupfs or Systemd, for all copies of the tree. The runtime must have the same one. Use
// returns an error for Systemd if systemd cannot be reached.
func (t Tree) Use(name string) error {
	d, err := newDriver(name)
	if err == nil {
		t.by.Store(&d)
	}
	return err
}

// Decided returns the tree whose driver Begin finds out.
func (t Tree) Decided(by func(context.Context) (driver string, err error)) Tree {
	t.decide = by
	return t
}

// Begin decides how cgroups are made, and waits until that is known.
func (t Tree) Begin(ctx context.Context) error {
	name, err := t.decide(ctx)
	if err != nil {
		return err
	}
	return t.Use(name)
}

func (t Tree) driver() driver { return *t.by.Load() }

// at returns where the cgroup with these names below the root is.
func (t Tree) at(names ...string) string {
	all := slices.Clone(t.root)
	for _, name := range names {
		if name != "" {
			all = append(all, name)
		}
	}
	return t.driver().path(all...)
}

// Unlimited returns the tree in which some pods have no CPU quota, because they have processors of their own.
func (t Tree) Unlimited(pods func(*v1.Pod) bool) Tree {
	t.unlimited = pods
	return t
}

// Most returns the tree in which all pods together may have so many processors, so much memory, and so many process
// ids ("pid").
func (t Tree) Most(list v1.ResourceList) Tree {
	t.most = list
	return t
}

// Pids returns the tree in which no pod has more than so many processes and threads; 0 or less sets no limit.
func (t Tree) Pids(limit int64) Tree {
	t.pids = max(limit, 0)
	return t
}

// Quotas returns the tree in which limits of processors are quotas in each period, or none at all.
func (t Tree) Quotas(on bool, period time.Duration) Tree {
	t.noQuota, t.period = !on, period.Microseconds()
	return t
}

// Reserve returns the tree that limits these cgroups too.
func (t Tree) Reserve(groups ...Reserved) Tree {
	t.reserved = groups
	return t
}

// limitReserved limits the cgroups that others made. One that is not there is an error: the name may be wrong.
func (t Tree) limitReserved() error {
	var errs []error
	for _, r := range t.reserved {
		at := t.driver().named(r.Name)
		if !present(at) {
			errs = append(errs,
				fmt.Errorf(
					"the cgroup %s (%s) does not exist: systemReservedCgroup and kubeReservedCgroup must name cgroups that are there", r.Name, at))
			continue
		}

		l := limits{}
		if cpu := r.Most.Cpu(); !cpu.IsZero() {
			l.shares = sharesOf(cpu.MilliValue())
		}
		if !r.Compressible {
			pids := r.Most["pid"]
			l.memory = r.Most.Memory().Value()
			l.pids = pids.Value()
		}
		if err := fits(at, l.memory); err != nil {
			errs = append(errs, err)
			l.memory = 0
		}
		errs = append(errs, t.driver().ensure(at, l))
	}
	return errors.Join(errs...)
}

// Share makes the cgroup of all pods and those of their classes. It limits what all pods may have, and gives the
// classes their shares of the processors: Burstable pods what they ask for together, BestEffort pods the least.
// Guaranteed pods stand beside the classes. With nil, as long as the pods are not known, the share of Burstable pods
// stays.
func (t Tree) Share(pods []*v1.Pod) error {
	d, top := t.driver(), t.Top()
	pids := t.most["pid"]
	whole := limits{memory: t.most.Memory().Value(), pids: pids.Value()}
	if cpu := t.most.Cpu(); !cpu.IsZero() {
		whole.shares = sharesOf(cpu.MilliValue())
	}
	asked := int64(0)
	for _, p := range pods {
		if p.Status.QOSClass == v1.PodQOSBurstable {
			requests := resources.PodRequests(p, resources.PodResourcesOptions{})
			asked += requests.Cpu().MilliValue()
		}
	}
	burstable := limits{}
	if pods != nil {
		burstable.shares = sharesOf(asked)
	}

	err := fits(top, whole.memory)
	if err != nil {
		whole.memory = 0
	}
	return errors.Join(err, d.ensure(top, whole), d.ensure(t.at(all, classNames[v1.PodQOSBurstable]), burstable),
		d.ensure(t.at(all, classNames[v1.PodQOSBestEffort]), limits{shares: minShares}), t.limitReserved())
}

// Path returns the cgroup of a pod, in which the runtime puts the pod's containers.
func (t Tree) Path(p *v1.Pod) string {
	return t.at(all, classNames[p.Status.QOSClass], "pod"+string(p.UID))
}

// all is the name of the cgroup of all pods.
const all = "kubepods"

var classNames = map[v1.PodQOSClass]string{v1.PodQOSGuaranteed: "", v1.PodQOSBurstable: "burstable",
	v1.PodQOSBestEffort: "besteffort"}

// Ensure makes the cgroup of a pod, and sets the limits that its spec asks for.
func (t Tree) Ensure(p *v1.Pod) error { return t.driver().ensure(t.Path(p), t.limits(p)) }

func (t Tree) limits(p *v1.Pod) limits {
	l := limitsOf(p)
	l.pids, l.period = t.pids, t.period
	if t.noQuota || t.unlimited != nil && t.unlimited(p) {
		l.quota = 0
	}
	if l.quota > 0 {
		l.quota = max(l.quota*l.per()/defaultPeriod, minQuota)
	}
	return l
}

// Resize gives the cgroup of a pod the limits that its spec asks for now: those that grow before change is called,
// which changes what is below it, and those that shrink after. If change fails, nothing shrinks. It fails before it
// changes anything if the memory limit would fall below what is in use.
func (t Tree) Resize(p *v1.Pod, change func() error) error {
	return t.driver().resize(t.Path(p), t.limits(p), change)
}

// Top returns the cgroup of all pods; "" before Use.
func (t Tree) Top() string { return t.at(all) }

// Memory returns the working set of all pods together. It returns an error that is os.ErrNotExist before the first pod.
func (t Tree) Memory() (uint64, error) {
	top := t.Top()
	if top == "" {
		return 0, fmt.Errorf("reading the memory of all pods: %w", os.ErrNotExist)
	}
	return memoryOf(top)
}

// RemovePod removes the cgroup of the pod with that UID, of any class. It succeeds if there is no such cgroup.
func (t Tree) RemovePod(uid types.UID) error {
	var errs []error
	for _, at := range t.places(uid) {
		errs = append(errs, t.driver().remove(at))
	}
	return errors.Join(errs...)
}

// RemoveContainer removes the cgroup of one container, which has ended, and kills what is left in it. That is needed
// where a start was cut short by the end of a kubelet: the runtime does not remove the container while a process of it
// is left.
func (t Tree) RemoveContainer(uid types.UID, id string) error {
	var errs []error
	for _, pod := range t.places(uid) {
		for _, at := range t.driver().containers(pod, id) {
			errs = append(errs, t.driver().remove(at))
		}
	}
	return errors.Join(errs...)
}

// places returns where the cgroup of a pod is in each class, because nobody may know the pod's class any more.
func (t Tree) places(uid types.UID) (out []string) {
	for class := range classNames {
		out = append(out,
			t.Path(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: v1.PodStatus{QOSClass: class}}))
	}
	return out
}

// None stands for a Tree on a system without cgroups. Its methods do nothing.
type None struct{}

// Begin does nothing.
func (None) Begin(context.Context) error { return nil }

// Path returns "": the runtime chooses.
func (None) Path(*v1.Pod) string { return "" }

// Ensure does nothing: the runtime limits containers by other means (on Windows, job objects).
func (None) Ensure(*v1.Pod) error { return nil }

// Share does nothing.
func (None) Share([]*v1.Pod) error { return nil }

// Resize only calls change.
func (None) Resize(_ *v1.Pod, change func() error) error { return change() }

// RemovePod does nothing.
func (None) RemovePod(types.UID) error { return nil }

// RemoveContainer does nothing.
func (None) RemoveContainer(types.UID, string) error { return nil }

// limits are the values that one cgroup gets; 0 sets none. shares is cpu.shares, quota is in microseconds per period
// of the CPU quota, memory is in bytes.
type limits struct {
	shares, quota, memory int64
	// pids is how many processes and threads there may be.
	pids int64
	// huge are bytes in huge pages by the size of a page as cgroups write it, such as 2MB. A pod has none of a size
	// that is not in it.
	huge map[string]int64
	// period of the quota in microseconds; 0 is upstream's default.
	period int64
}

func (l limits) per() int64 {
	if l.period == 0 {
		return defaultPeriod
	}
	return l.period
}

// Bounds of cpu.shares, and the smallest quota in a period, in microseconds; both are the kernel's.
const (
	minShares, maxShares = 2, 262144
	minQuota             = 1000
)

// sharesOf turns thousandths of a processor into cpu.shares.
func sharesOf(milli int64) int64 { return min(max(milli*1024/1000, minShares), maxShares) }

// limitsOf adds up what a pod asks for, with the overhead of its runtime. A limit counts only if every container has
// one, or the pod as a whole.
func limitsOf(p *v1.Pod) limits {
	cpuAll, memAll := true, true
	requests := resources.PodRequests(p, resources.PodResourcesOptions{})
	most := resources.PodLimits(p,
		resources.PodResourcesOptions{ContainerFn: func(l v1.ResourceList, _ resources.ContainerType) {
			cpuAll = cpuAll && !l.Cpu().IsZero()
			memAll = memAll && !l.Memory().IsZero()
		}})
	if whole := p.Spec.Resources; whole != nil {
		cpuAll = cpuAll || !whole.Limits.Cpu().IsZero()
		memAll = memAll || !whole.Limits.Memory().IsZero()
	}

	l := limits{huge: hugePages(requests), shares: sharesOf(requests.Cpu().MilliValue())}
	if cpuAll && !most.Cpu().IsZero() {
		l.quota = max(most.Cpu().MilliValue()*100, minQuota)
	}
	if memAll {
		l.memory = most.Memory().Value()
	}
	return l
}

// hugePages returns how many bytes in huge pages a pod asks for, by the size of a page. A size that cannot be read is
// left out: the API server lets none in.
func hugePages(requests v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range requests {
		if text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
			if size, err := resource.ParseQuantity(text); err == nil {
				out[PageName(size.Value())] = q.Value()
			}
		}
	}
	return out
}

// PageName returns the name that cgroups use for a huge page of a size in bytes: 64KB, 2MB, 1GB.
func PageName(bytes int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{30, "GB"}, {20, "MB"}} {
		if bytes>>u.shift > 0 && bytes%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d%s", bytes>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%dKB", bytes>>10)
}
