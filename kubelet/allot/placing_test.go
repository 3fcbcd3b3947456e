package allot

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/numa"
)

// trade gives out pieces of one kind, so many of each NUMA node. Each container takes one.
type trade struct {
	free      map[int]int
	fails     string // the container whose allocation fails
	undone    bool
	committed bool
}

func (g *trade) Hints(c *v1.Container) [][]numa.Hint {
	need := 1
	if c == nil {
		need = 2
	}
	var out []numa.Hint
	for _, m := range numa.Masks([]int{0, 1}) {
		have := 0
		for _, n := range m.Nodes() {
			have += g.free[n]
		}
		if have >= need {
			out = append(out, numa.Hint{Nodes: m})
		}
	}
	return [][]numa.Hint{numa.Prefer(out, 1)}
}

func (g *trade) Allocate(_ context.Context, c *v1.Container, near numa.Hint) error {
	if c.Name == g.fails {
		return errors.New("it is broken")
	}
	for _, wanted := range []bool{true, false} { // nodes that are wanted first
		for n := range 2 {
			if near.Nodes.Has(n) == wanted && g.free[n] > 0 {
				g.free[n]--
				return nil
			}
		}
	}
	return errors.New("there is none")
}

func (g *trade) Commit(context.Context) error { g.committed = true; return nil }
func (g *trade) Abort()                       { g.undone = true }

// TestPlacing: what a policy asks of each container, or of all containers of a pod together.
func TestPlacing(t *testing.T) {
	type free = map[int]int
	for _, c := range []struct {
		name, policy string
		wholePod     bool
		one, other   free
		fails        string
		want         string // reason of the refusal
		left         int    // of the first trade
	}{
		{"no policy", "none", false, free{0: 1, 1: 1}, free{0: 0, 1: 2}, "", "", 0},
		{"each container on one node", "single-numa-node", false, free{0: 1, 1: 1}, free{0: 1, 1: 1}, "", "", 0},
		{"the pod as a whole on one node", "single-numa-node", true, free{0: 1, 1: 1}, free{0: 1, 1: 1}, "",
			"TopologyAffinityError", 2},
		{"the pod as a whole on one node that has enough", "single-numa-node", true, free{0: 1, 1: 2}, free{0: 2, 1: 2},
			"", "", 1},
		{"apart", "restricted", false, free{0: 2}, free{1: 2}, "", "TopologyAffinityError", 2},
		{"apart where it may be", "best-effort", false, free{0: 2}, free{1: 2}, "", "", 0},
		{"one of the trades fails", "none", false, free{0: 2}, free{0: 2}, "b", "UnexpectedAdmissionError", 0},
	} {
		one, other := &trade{free: c.one}, &trade{free: c.other, fails: c.fails}
		l := &placing{Topology: Topology{Policy: numa.Policy{Name: c.policy,
			Machine: &numa.Machine{Nodes: []numa.Node{{ID: 0}, {ID: 1}}}}, WholePod: c.wholePod},
			pins: noPins{}, turn: make(chan struct{}, 1)}
		for _, g := range []*trade{one, other} {
			l.begin = append(l.begin, func(*v1.Pod) allocation { return g })
		}

		refusal := l.allocate(t.Context(),
			&v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "a"}},
				Containers: []v1.Container{{Name: "b"}}}})
		reason := ""
		if refusal != nil {
			reason = refusal.Reason
		}
		if reason != c.want || one.free[0]+one.free[1] != c.left || one.undone != (c.want != "") ||
			one.committed != (c.want == "") {
			t.Errorf("%s: %+v, want %q; %d left, undone %v, committed %v", c.name, refusal, c.want,
				one.free[0]+one.free[1], one.undone, one.committed)
		}
	}
}

// pinned are pins of a node where both managers are on.
type pinned struct{ noPins }

func (pinned) CPUs() bool        { return true }
func (pinned) MemoryNodes() bool { return true }

// TestResizeOfPinned: what a container has alone does not change in place.
func TestResizeOfPinned(t *testing.T) {
	pod := func(class v1.PodQOSClass, cpu, memory string) *v1.Pod {
		p := &v1.Pod{Status: v1.PodStatus{QOSClass: class}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
			v1.ResourceMemory: resource.MustParse(memory)}
		return p
	}
	guaranteed := v1.PodQOSGuaranteed
	had := pod(guaranteed, "2", "1Gi")
	for _, c := range []struct {
		pins  pins
		wants *v1.Pod
		want  *admit.Refusal
	}{
		{pinned{}, pod(guaranteed, "2", "1Gi"), nil},
		{pinned{}, pod(v1.PodQOSBurstable, "3", "1Gi"), nil},
		{noPins{}, pod(guaranteed, "3", "2Gi"), nil},
		{pinned{}, pod(guaranteed, "3", "1Gi"),
			&admit.Refusal{Reason: "Infeasible",
				Message: `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`}},
		{pinned{}, pod(guaranteed, "2", "2Gi"),
			&admit.Refusal{Reason: "Infeasible",
				Message: `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`}},
	} {
		got := (&placing{pins: c.pins}).resizeRefusal(had, c.wants)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%v: %v, want %v", c.wants.Spec.Containers[0].Resources.Requests, got, c.want)
		}
	}
}
