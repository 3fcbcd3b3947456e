package evict

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resources "k8s.io/component-helpers/resource"
)

// Signals of metrics for pods that exceed a limit of their own, as upstream calls them.
const (
	emptyDirLimit  = "emptydirfs.limit"
	podLimit       = "ephemeralpodfs.limit"
	containerLimit = "ephemeralcontainerfs.limit"
)

// limited returns the pods that end when they exceed a limit of local storage.
func (r *round) limited() (out []types.UID) {
	for i := range r.o.Pods {
		p := &r.o.Pods[i]
		if r.spared(p) {
			continue
		}
		most := resources.PodLimits(p.Pod, resources.PodResourcesOptions{})
		sized := slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
			return v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0
		})
		if sized || !most.StorageEphemeral().IsZero() {
			out = append(out, p.UID)
		}
	}
	return out
}

// overLimits evicts the pods that exceed a limit of their own. Unlike for the node's sake, there can be several in a
// round, and the status gets no DisruptionTarget: the pod itself is the cause.
func (r *round) overLimits() (out []Eviction) {
	for i := range r.o.Pods {
		p := &r.o.Pods[i]
		if p.Usage == nil || r.spared(p) {
			continue
		}
		for _, rule := range []func(*Pod, *Observed) (signal, message string){overEmptyDir, overPod, overContainer} {
			if signal, message := rule(p, r.o); signal != "" {
				out = append(out, Eviction{Pod: p.Pod, Grace: hardGrace, Signal: signal, Age: -1, Message: message})
				break
			}
		}
	}
	return out
}

func overEmptyDir(p *Pod, _ *Observed) (signal, message string) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		at := slices.IndexFunc(p.Usage.Volumes, func(u VolumeUsage) bool { return u.Name == v.Name })
		if at >= 0 && int64(p.Usage.Volumes[at].Bytes) > v.EmptyDir.SizeLimit.Value() {
			return emptyDirLimit, emptyDirMessage(v.Name, v.EmptyDir.SizeLimit)
		}
	}
	return "", ""
}

// overPod compares all that the pod has on disk with its limit. A limit counts only if every container has one.
func overPod(p *Pod, _ *Observed) (signal, message string) {
	most := resources.PodLimits(p.Pod, resources.PodResourcesOptions{})
	limit, ok := most[v1.ResourceEphemeralStorage]
	if !ok || limit.IsZero() {
		return "", ""
	}
	used, _ := onDisk(p.Usage, places{layers: true, logs: true, volumes: true})
	if used > limit.Value() {
		return podLimit, podMessage(&limit)
	}
	return "", ""
}

// overContainer compares the log and the writable layer of each container with its limit; the layer only if it is on
// the node's own file system.
func overContainer(p *Pod, o *Observed) (signal, message string) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		limit := c.Resources.Limits.StorageEphemeral()
		at := slices.IndexFunc(p.Usage.Containers, func(u ContainerUsage) bool { return u.Name == c.Name })
		if limit.IsZero() || at < 0 {
			continue
		}
		used := known(p.Usage.Containers[at].Logs)
		if !o.ImagesApart {
			used += known(p.Usage.Containers[at].Layer)
		}
		if int64(used) > limit.Value() {
			return containerLimit, containerMessage(c.Name, limit)
		}
	}
	return "", ""
}
