package desired

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

func needs(cpu, memory string) v1.ResourceRequirements {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

func TestResourcesApply(t *testing.T) {
	p := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "side"}},
		Containers: []v1.Container{{Name: "c", Resources: needs("20m", "20Mi")}}}}
	same := ResourcesOf(p)
	if same.Apply(p) != p {
		t.Error("a pod that has what it asks for was copied")
	}
	p.Spec.InitContainers[0].Resources = needs("1", "1Gi")
	got := same.Apply(p)
	if got == p || !same.Same(got) || same.Same(p) ||
		!equality.Semantic.DeepEqual(p.Spec.InitContainers[0].Resources, needs("1", "1Gi")) {
		t.Errorf("applied: %+v, to %+v", got.Spec, p.Spec)
	}
}
