package cgroup

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func container(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func TestPodLimits(t *testing.T) {
	full := container(list("cpu", "500m", "memory", "64Mi"), list("cpu", "1", "memory", "128Mi"))
	half := container(list("cpu", "100m"), list("memory", "64Mi"))

	for _, c := range []struct {
		name string
		spec v1.PodSpec
		want limits
	}{
		{"nothing", v1.PodSpec{Containers: []v1.Container{container(nil, nil)}}, limits{shares: 2}},
		{"all", v1.PodSpec{Containers: []v1.Container{full}}, limits{shares: 512, quota: 100000, memory: 128 << 20}},
		{"one has no cpu limit", v1.PodSpec{Containers: []v1.Container{full, half}},
			limits{shares: 614, memory: 192 << 20}},
		{"overhead", v1.PodSpec{Containers: []v1.Container{full}, Overhead: list("cpu", "250m", "memory", "32Mi")},
			limits{shares: 768, quota: 125000, memory: 160 << 20}},
		{"overhead alone limits nothing",
			v1.PodSpec{Containers: []v1.Container{container(nil, nil)}, Overhead: list("cpu", "250m")},
			limits{shares: 256}},
		{"largest init container",
			v1.PodSpec{Containers: []v1.Container{full},
				InitContainers: []v1.Container{container(list("cpu", "2"), list("cpu", "2", "memory", "1Gi"))}},
			limits{shares: 2048, quota: 200000, memory: 1 << 30}},
		{"tiny", v1.PodSpec{Containers: []v1.Container{container(list("cpu", "1m"), list("cpu", "1m"))}},
			limits{shares: 2, quota: 1000}},
		{"huge", v1.PodSpec{Containers: []v1.Container{container(list("cpu", "1000"), nil)}}, limits{shares: 262144}},
		{"the pod as a whole", v1.PodSpec{Containers: []v1.Container{container(nil, nil)},
			Resources: &v1.ResourceRequirements{
				Requests: list("cpu", "1"), Limits: list("cpu", "2", "memory", "1Gi")}},
			limits{shares: 1024, quota: 200000, memory: 1 << 30}},
		{"huge pages",
			v1.PodSpec{Containers: []v1.Container{container(list("hugepages-2Mi", "4Mi"), nil),
				container(list("hugepages-2Mi", "2Mi", "hugepages-1Gi", "1Gi"), nil)}},
			limits{shares: 2, huge: map[string]int64{"2MB": 6 << 20, "1GB": 1 << 30}}},
	} {
		if c.want.huge == nil {
			c.want.huge = map[string]int64{}
		}
		if got := limitsOf(&v1.Pod{Spec: c.spec}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestQuotas: cpuCFSQuota and cpuCFSQuotaPeriod hold for pods as for their containers.
func TestQuotas(t *testing.T) {
	half := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container(nil, list("cpu", "500m", "memory", "64Mi"))}}}
	tiny := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container(nil, list("cpu", "10m"))}}}
	for _, c := range []struct {
		name          string
		tree          Tree
		p             *v1.Pod
		quota, period int64
	}{
		{"by default", New(""), half, 50000, 100000},
		{"shorter period", New("").Quotas(true, 20*time.Millisecond), half, 10000, 20000},
		{"no quota below a millisecond", New("").Quotas(true, 20*time.Millisecond), tiny, 1000, 20000},
		{"none", New("").Quotas(false, 100*time.Millisecond), half, 0, 100000},
	} {
		if l := c.tree.limits(c.p); l.quota != c.quota || l.per() != c.period {
			t.Errorf("%s: %d in %d, want %d in %d", c.name, l.quota, l.per(), c.quota, c.period)
		}
	}
}

func TestPageName(t *testing.T) {
	for bytes, want := range map[int64]string{64 << 10: "64KB", 2 << 20: "2MB", 1 << 30: "1GB", 1536 << 20: "1536MB"} {
		if got := PageName(bytes); got != want {
			t.Errorf("pages of %d bytes are called %s, want %s", bytes, got, want)
		}
	}
}

// TestUnlimited: a pod with processors of its own has no quota.
func TestUnlimited(t *testing.T) {
	p := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{
			{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}}}}}}
	for unlimited, want := range map[bool]int64{true: 0, false: 200000} {
		if got := New("").Unlimited(func(*v1.Pod) bool { return unlimited }).limits(p).quota; got != want {
			t.Errorf("unlimited %v: %d", unlimited, got)
		}
	}
}
