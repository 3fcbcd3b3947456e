package desired

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Resources are the requests and limits of a pod and its containers.
type Resources struct {
	// Pod has those of the pod as a whole; nil if it has none.
	Pod        *v1.ResourceRequirements           `json:"pod,omitempty"`
	Containers map[string]v1.ResourceRequirements `json:"containers"` // by name
}

// ResourcesOf returns what a pod asks for.
func ResourcesOf(p *v1.Pod) Resources {
	out := Resources{Pod: p.Spec.Resources.DeepCopy(), Containers: map[string]v1.ResourceRequirements{}}
	for c := range Containers(p) {
		out.Containers[c.Name] = *c.Resources.DeepCopy()
	}
	return out
}

// PodLimits returns the limits of a pod as a whole; nil if it has none.
func PodLimits(p *v1.Pod) v1.ResourceList {
	if p.Spec.Resources == nil {
		return nil
	}
	return p.Spec.Resources.Limits
}

// InPod returns the resources of a container as its cgroup has them: its limit of processors or memory, if it names
// none, is that of the pod as a whole. That changes nothing for the container, which is in the pod's cgroup, but for
// those who look at its own, as runtimes of languages do.
func InPod(r v1.ResourceRequirements, limits v1.ResourceList) v1.ResourceRequirements {
	out := *r.DeepCopy()
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		own, whole := r.Limits[name], limits[name]
		if !own.IsZero() || whole.IsZero() {
			continue
		}
		if out.Limits == nil {
			out.Limits = v1.ResourceList{}
		}
		out.Limits[name] = whole
	}
	return out
}

// Same reports whether p asks for r.
func (r Resources) Same(p *v1.Pod) bool { return r.Equal(ResourcesOf(p)) }

// Equal reports whether both are the same amounts, in whatever units they are written.
func (r Resources) Equal(other Resources) bool { return equality.Semantic.DeepEqual(r, other) }

// Apply returns p with r in place of what it asks for: p itself if that is the same, else a copy.
func (r Resources) Apply(p *v1.Pod) *v1.Pod {
	if r.Same(p) {
		return p
	}
	out := p.DeepCopy()
	out.Spec.Resources = r.Pod.DeepCopy()
	for c := range Containers(out) {
		if x, ok := r.Containers[c.Name]; ok {
			c.Resources = *x.DeepCopy()
		}
	}
	return out
}
