package pod

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

func amounts(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func needs(cpu, memory string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: amounts("cpu", cpu, "memory", memory),
		Limits: amounts("cpu", cpu, "memory", memory)}
}

// sized makes the newest instance of the first container one that was made with these resources, and lets the pod have
// others.
func sized(had, has v1.ResourceRequirements, open bool) func(*State) {
	return func(s *State) {
		s.runtime.Containers[0].MadeWith = &had
		s.pod.Spec.Containers[0].Resources = has
		r := desired.ResourcesOf(s.pod)
		s.resize.Resize = Resize{Allocated: &r, Generation: 3, Open: open}
	}
}

func restartFor(name v1.ResourceName) func(*State) {
	return func(s *State) {
		s.pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: name,
			RestartPolicy: v1.RestartContainer}}
	}
}

func resizeFailed(wait time.Duration) func(*State) {
	return func(s *State) {
		s.tasks.failures[ResizeKey] = &Failure{Reason: v1.PodReasonError, Message: "too much in use",
			RetryAt: now.Add(wait)}
	}
}

func TestResize(t *testing.T) {
	small, big := needs("10m", "10Mi"), needs("20m", "20Mi")
	moreCPU := needs("20m", "10Mi")
	base := []func(*State){sandbox, image, running("c")}
	for _, c := range []struct {
		name    string
		changes []func(*State)
		want    string // the plan
		reason  string // of PodResizeInProgress; "-" for no such condition
	}{

		{"nothing to change", []func(*State){sized(small, small, false)}, "", "-"},
		{"somebody else's container",
			[]func(*State){sized(small, big, false), func(s *State) { s.runtime.Containers[0].MadeWith = nil }}, "",
			"-"},
		{"container and pod", []func(*State){sized(small, big, true)}, "resize-pod c", ""},
		{"pod only", []func(*State){sized(small, small, true)}, "resize-pod", ""},
		{"container that was started meanwhile", []func(*State){sized(small, big, false)}, "resize-pod c", ""},
		{"told already", []func(*State){sized(small, big, false), func(s *State) {
			s.resize.Actuated = map[string]v1.ResourceRequirements{"c1": big}
		}}, "", "-"},
		{"in flight", []func(*State){sized(small, big, true),
			func(s *State) { s.tasks.inFlight[ResizeKey] = time.Time{} }},
			"", ""},
		{"failed a moment ago", []func(*State){sized(small, big, true), resizeFailed(time.Second)}, "",
			v1.PodReasonError},
		{"failed a while ago", []func(*State){sized(small, big, true), resizeFailed(-time.Second)}, "resize-pod c",
			v1.PodReasonError},
		{"restart for memory", []func(*State){sized(small, big, true), restartFor(v1.ResourceMemory)},
			"stop-container c c1 grace=30s", ""},
		{"restart for memory, which stays", []func(*State){sized(small, moreCPU, true), restartFor(v1.ResourceMemory)},
			"resize-pod c", ""},
		{"nothing starts before the pod has its limits", []func(*State){sized(small, big, true), func(s *State) {
			s.runtime.Containers[0].State, s.runtime.Containers[0].FinishedAt = observed.Exited, now.Add(-time.Minute)
		}}, "resize-pod", ""},
		{"then it does", []func(*State){sized(small, big, false), func(s *State) {
			s.runtime.Containers[0].State, s.runtime.Containers[0].FinishedAt = observed.Exited, now.Add(-time.Minute)
		}}, "start-container c s attempt=1", "-"},
		{"a pod that ends", []func(*State){sized(small, big, true), deleted(30)}, "stop-container c c1 grace=30s", ""},
	} {

		s := fresh(append(base[:len(base):len(base)], c.changes...)...)
		p := Reconcile(s, Node{}, now)
		if got := strings.TrimSpace(p.Dump()); got != c.want {
			t.Errorf("%s: plan %q, want %q", c.name, got, c.want)
		}
		if bad := Broken(s, &p); len(bad) > 0 {
			t.Errorf("%s: %v", c.name, bad)
		}
		got := "-"
		if cond := findCondition(&p.Status, v1.PodResizeInProgress); cond != nil {
			got = cond.Reason
			if cond.ObservedGeneration != 3 || cond.Status != v1.ConditionTrue {
				t.Errorf("%s: %+v", c.name, cond)
			}
		}
		if got != c.reason {
			t.Errorf("%s: in progress %q, want %q", c.name, got, c.reason)
		}
	}
}

// TestResizeOrder: who gives something back goes first.
func TestResizeOrder(t *testing.T) {
	s := fresh(sandbox, image, second, running("c"), running("d"),
		sized(needs("10m", "10Mi"), needs("20m", "20Mi"), true))
	was := needs("40m", "40Mi")
	s.runtime.Containers[1].MadeWith = &was
	s.pod.Spec.Containers[1].Resources = needs("30m", "30Mi")
	s.images["d"] = Image{Ref: "sha256:i"}
	if p := Reconcile(s, Node{}, now); strings.TrimSpace(p.Dump()) != "resize-pod d c" {
		t.Errorf("plan %q", p.Dump())
	}
}

// TestResizeReported: the conditions and events of a resize that waits, fails, and ends.
func TestResizeReported(t *testing.T) {
	s := fresh(sandbox, image, running("c"), sized(needs("10m", "10Mi"), needs("10m", "10Mi"), false))
	s.resize.Pending = &Pending{Reason: v1.PodReasonDeferred, Message: "no room", Generation: 4}
	look := func(at time.Time) Plan {
		p := Reconcile(s, Node{}, at)
		st := p.Status
		s.last = &st
		return p
	}

	p := look(now)
	if c := findCondition(&p.Status, v1.PodResizePending); c == nil || c.Reason != "Deferred" ||
		c.Message != "no room" ||
		c.ObservedGeneration != 4 {
		t.Fatalf("pending: %+v", c)
	}

	p = look(now.Add(time.Minute))
	if c := findCondition(&p.Status, v1.PodResizePending); !c.LastTransitionTime.Time.Equal(now) {
		t.Errorf("pending since %v", c.LastTransitionTime)
	}

	s.resize.Pending, s.resize.Open, s.resize.Generation = nil, true, 4
	if p = look(now); findCondition(&p.Status, v1.PodResizePending) != nil ||
		findCondition(&p.Status, v1.PodResizeInProgress) == nil || len(p.Events) != 0 {
		t.Errorf("begun: %+v %v", p.Status.Conditions, p.Events)
	}

	resizeFailed(time.Second)(s)
	if p = look(now); len(p.Events) != 1 || p.Events[0].Reason != "ResizeError" ||
		!strings.Contains(p.Events[0].Message, `"error":"too much in use"`) {
		t.Errorf("failed: %v", p.Events)
	}

	delete(s.tasks.failures, ResizeKey)
	s.resize.Open = false
	p = look(now)
	want :=
		`Pod resize completed: {"containers":[{"name":"c","resources":{"limits":{"cpu":"10m","memory":"10Mi"},"requests":{"cpu":"10m","memory":"10Mi"}}}],"generation":4}`
	if len(p.Events) != 1 || p.Events[0].Reason != "ResizeCompleted" || p.Events[0].Message != want {
		t.Errorf("done: %v", p.Events)
	}
	if findCondition(&p.Status, v1.PodResizeInProgress) != nil {
		t.Errorf("done: %+v", p.Status.Conditions)
	}
}

// TestShownResources: the status shows what the runtime reports of a container, and below the kernel's smallest values
// what the container asked for.
func TestShownResources(t *testing.T) {
	for _, c := range []struct {
		name        string
		asked, want v1.ResourceRequirements
		given       observed.Given
	}{
		{"nothing known", needs("20m", "35Mi"), needs("20m", "35Mi"), observed.Given{}},
		{"has it", needs("20m", "35Mi"), needs("20m", "35Mi"),
			observed.Given{Shares: 20, Quota: 2000, Period: 100000, Memory: 35 << 20}},
		{"has less", needs("25m", "40Mi"),
			v1.ResourceRequirements{Requests: amounts("cpu", "20m", "memory", "40Mi"),
				Limits: amounts("cpu", "20m", "memory", "35Mi")},
			observed.Given{Shares: 20, Quota: 2000, Period: 100000, Memory: 35 << 20}},
		{"below the least", v1.ResourceRequirements{Requests: amounts("cpu", "1m"), Limits: amounts("cpu", "5m")},
			v1.ResourceRequirements{Requests: amounts("cpu", "1m"), Limits: amounts("cpu", "5m")},
			observed.Given{Shares: 2, Quota: 1000, Period: 100000}},
		{"no limits, no request for CPU", v1.ResourceRequirements{Requests: amounts("memory", "35Mi")},
			v1.ResourceRequirements{Requests: amounts("memory", "35Mi")}, observed.Given{Shares: 2, Period: 100000}},
		{"nothing asked", v1.ResourceRequirements{}, v1.ResourceRequirements{},
			observed.Given{Shares: 2, Period: 100000}},
	} {
		s := fresh(running("c"))
		s.pod.Spec.Containers[0].Resources = c.asked
		s.runtime.Containers[0].Given = c.given

		if got := shownResources(s, &s.pod.Spec.Containers[0],
			&s.runtime.Containers[0]); !equality.Semantic.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestWholeResources: the status has what the pod as a whole is allocated, and what its cgroup has, which follows when
// the resize is over.
func TestWholeResources(t *testing.T) {
	whole := func(cpu, memory string) func(*State) {
		r := needs(cpu, memory)
		return func(s *State) { s.pod.Spec.Resources = &r }
	}
	published := func(cpu, memory string) func(*State) {
		r := needs(cpu, memory)
		return func(s *State) { s.last = &v1.PodStatus{Resources: &r} }
	}
	open := func(s *State) { s.resize.Open = true }

	none, some := v1.ResourceRequirements{}, needs("10m", "10Mi")
	for _, c := range []struct {
		name           string
		changes        []func(*State)
		allocated, has v1.ResourceRequirements
	}{
		{"asks for nothing", []func(*State){sized(none, none, false)}, none, none},
		{"sum of its containers", []func(*State){sized(some, some, false)}, some, some},
		{"the pod as a whole", []func(*State){sized(some, some, false), whole("50m", "50Mi")}, needs("50m", "50Mi"),
			needs("50m", "50Mi")},
		{"a resize that is open",
			[]func(*State){sized(some, some, false), whole("50m", "50Mi"), published("20m", "20Mi"), open},
			needs("50m", "50Mi"), needs("20m", "20Mi")},
		{"open, and nothing published", []func(*State){sized(some, some, false), whole("50m", "50Mi"), open},
			needs("50m", "50Mi"), needs("50m", "50Mi")},
		{"a resize that is over",
			[]func(*State){sized(some, some, false), whole("50m", "50Mi"), published("20m", "20Mi")},
			needs("50m", "50Mi"), needs("50m", "50Mi")},
	} {
		s := fresh(append([]func(*State){sandbox, image, running("c")}, c.changes...)...)
		st := Reconcile(s, Node{}, now).Status
		if !equality.Semantic.DeepEqual(st.AllocatedResources, c.allocated.Requests) {
			t.Errorf("%s: allocated %v, want %v", c.name, st.AllocatedResources, c.allocated.Requests)
		}
		if st.Resources == nil {
			st.Resources = &none
		}
		if !equality.Semantic.DeepEqual(*st.Resources, c.has) {
			t.Errorf("%s: has %v, want %v", c.name, *st.Resources, c.has)
		}
	}
}

// TestResizeInPod: a container without limits of its own runs with those of the pod, and is told when they change; one
// whose policy says so ends for it.
func TestResizeInPod(t *testing.T) {
	limits := func(memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse(memory)}
	}
	none, own := v1.ResourceRequirements{}, needs("10m", "10Mi")

	for _, c := range []struct {
		name     string
		has      v1.ResourceRequirements
		madeIn   v1.ResourceList
		told     bool // the runtime was told the pod's limits since
		restarts bool
		wants    string
		updates  int
	}{
		{"made in it", none, limits("64Mi"), false, false, "64Mi", 0},
		{"the pod got more", none, limits("64Mi"), false, false, "96Mi", 1},
		{"the pod got more, and it was told", none, limits("64Mi"), true, false, "96Mi", 0},
		{"the pod got more, and its policy is to end", none, limits("64Mi"), false, true, "96Mi", 1},
		{"with limits of its own", own, limits("64Mi"), false, true, "96Mi", 0},
		{"made by a kubelet that did not note it", none, nil, false, false, "64Mi", 1},
	} {
		s := fresh(sandbox, image, running("c"), sized(c.has, c.has, false))

		s.pod.Spec.Resources = &v1.ResourceRequirements{Limits: limits(c.wants)}
		s.runtime.Containers[0].MadeIn = c.madeIn
		if c.told {
			s.resize.Actuated = map[string]v1.ResourceRequirements{s.runtime.Containers[0].ID: desired.InPod(c.has,
				limits(c.wants))}
		}
		if c.restarts {
			s.pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory,
				RestartPolicy: v1.RestartContainer}}
		}
		list, restarts := s.resize.updates(s.pod, s.runtime.Runtime)
		if len(list) != c.updates || restarts != (c.restarts && c.updates > 0) {
			t.Errorf("%s: %v are updated, restarts %t", c.name, list, restarts)
		}
	}
}
