package cgroup

import (
	"errors"
	"path"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resources "k8s.io/component-helpers/resource"
)

// PodPath is the cgroup of a pod below root: <root>/kubepods[/<class>]/pod<uid>.
func PodPath(root string, p *v1.Pod) string {
	return path.Join("/", root, "kubepods", classFolders[p.Status.QOSClass], "pod"+string(p.UID))
}

var classFolders = map[v1.PodQOSClass]string{v1.PodQOSGuaranteed: "", v1.PodQOSBurstable: "burstable", v1.PodQOSBestEffort: "besteffort"}

// RemovePod removes the cgroup of a pod of which only the UID is known. Gone is success.
func RemovePod(root string, uid types.UID) error { return removeBelow(root, uid, "") }

// RemoveContainer removes the cgroup of one container, which has ended, and kills what is left in it: where the end of a
// kubelet cut a start short, the runtime does not remove the container before that.
func RemoveContainer(root string, uid types.UID, id string) error { return removeBelow(root, uid, id) }

func removeBelow(root string, uid types.UID, name string) error {
	var errs []error
	for class := range classFolders {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: v1.PodStatus{QOSClass: class}}
		errs = append(errs, Remove(path.Join(PodPath(root, p), name)))
	}
	return errors.Join(errs...)
}

// Limits of one pod's cgroup; zero means none.
type Limits struct {
	Shares, Quota, Memory int64
}

// Bounds of cpu.shares (the kernel's), and the least quota per period of 100 ms that it takes.
const (
	minShares, maxShares = 2, 262144
	minQuota             = 1000
)

// PodLimits adds up what a pod asks for, with the overhead of its runtime. A limit counts only if every container has one,
// or the pod as a whole.
func PodLimits(p *v1.Pod) Limits {
	cpuAll, memAll := true, true
	requests := resources.PodRequests(p, resources.PodResourcesOptions{})
	limits := resources.PodLimits(p, resources.PodResourcesOptions{ContainerFn: func(l v1.ResourceList, _ resources.ContainerType) {
		cpuAll = cpuAll && !l.Cpu().IsZero()
		memAll = memAll && !l.Memory().IsZero()
	}})
	if whole := p.Spec.Resources; whole != nil {
		cpuAll = cpuAll || !whole.Limits.Cpu().IsZero()
		memAll = memAll || !whole.Limits.Memory().IsZero()
	}
	l := Limits{Shares: min(max(requests.Cpu().MilliValue()*1024/1000, minShares), maxShares)}
	if cpuAll && !limits.Cpu().IsZero() {
		l.Quota = max(limits.Cpu().MilliValue()*100, minQuota)
	}
	if memAll {
		l.Memory = limits.Memory().Value()
	}
	return l
}
