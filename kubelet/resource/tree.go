package resource

import (
	"errors"
	"path"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodPath is the cgroup of a pod below root: <root>/kubepods[/<class>]/pod<uid>.
func PodPath(root string, p *v1.Pod) string {
	return path.Join("/", root, "kubepods", classFolders[p.Status.QOSClass], "pod"+string(p.UID))
}

var classFolders = map[v1.PodQOSClass]string{v1.PodQOSGuaranteed: "", v1.PodQOSBurstable: "burstable", v1.PodQOSBestEffort: "besteffort"}

// RemovePod removes the cgroup of a pod of which only the UID is known. Gone is success.
func RemovePod(root string, uid types.UID) error {
	var errs []error
	for class := range classFolders {
		errs = append(errs, Remove(PodPath(root, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: v1.PodStatus{QOSClass: class}})))
	}
	return errors.Join(errs...)
}

// Limits of one pod's cgroup; zero means none.
type Limits struct {
	Shares, Quota, Memory int64
}

// PodLimits adds up what the containers of a pod ask for. A limit counts only if every container has one.
func PodLimits(p *v1.Pod) Limits {
	var l Limits
	var request, cpu, mem int64
	cpuAll, memAll := true, true
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		req := r.Requests.Cpu().MilliValue()
		if req == 0 {
			req = r.Limits.Cpu().MilliValue()
		}
		request += req
		cpu += r.Limits.Cpu().MilliValue()
		mem += r.Limits.Memory().Value()
		cpuAll = cpuAll && !r.Limits.Cpu().IsZero()
		memAll = memAll && !r.Limits.Memory().IsZero()
	}
	for i := range p.Spec.InitContainers {
		r := &p.Spec.InitContainers[i].Resources
		cpu = max(cpu, r.Limits.Cpu().MilliValue())
		mem = max(mem, r.Limits.Memory().Value())
	}
	l.Shares = max(request*1024/1000, 2)
	if cpuAll {
		l.Quota = max(cpu*100, 1000)
	}
	if memAll {
		l.Memory = mem
	}
	return l
}

// Allocatable is what is left of capacity after reservations: each list is taken off, and nothing falls below zero.
func Allocatable(capacity v1.ResourceList, reserved ...v1.ResourceList) v1.ResourceList {
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
	return out
}
