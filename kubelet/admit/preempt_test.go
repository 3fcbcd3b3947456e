package admit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// named is a pod of a class that asks for something; priority 0 is none.
func named(uid string, class v1.PodQOSClass, priority int32, pairs ...string) *v1.Pod {
	return with(asking(pairs...), func(p *v1.Pod) {
		p.UID, p.Status.QOSClass = types.UID(uid), class
		if priority != 0 {
			p.Spec.Priority = &priority
		}
	})
}

const critical = 2_000_000_000

// TestChoose: the classes in their order, the nearest pod first, and no more pods than are needed.
func TestChoose(t *testing.T) {
	best, burst, guaranteed := v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed
	for _, c := range []struct {
		name string
		pods []*v1.Pod
		lack string // of memory; pods, with a colon before it
		want string
	}{
		{"the smallest that is enough",
			[]*v1.Pod{named("big", burst, 0, "memory", "500Mi"), named("fit", burst, 0, "memory", "200Mi"),
				named("small", burst, 0, "memory", "50Mi")}, "150Mi", "fit"},
		{"two of them", []*v1.Pod{named("a", burst, 0, "memory", "100Mi"), named("b", burst, 0, "memory", "90Mi"),
			named("c", burst, 0, "memory", "10Mi")}, "150Mi", "a b"},
		{"burstable before guaranteed",
			[]*v1.Pod{named("g", guaranteed, 0, "memory", "200Mi"), named("b", burst, 0, "memory", "300Mi")}, "150Mi",
			"b"},
		{"guaranteed where the others are not enough",
			[]*v1.Pod{named("g", guaranteed, 0, "memory", "200Mi"), named("h", guaranteed, 0, "memory", "400Mi"),
				named("b", burst, 0, "memory", "100Mi")}, "250Mi", "b g"},
		{"best effort holds no memory", []*v1.Pod{named("e", best, 0), named("b", burst, 0, "memory", "300Mi")},
			"150Mi", "b"},
		{"best effort holds a place", []*v1.Pod{named("e", best, 0), named("b", burst, 0, "memory", "300Mi")}, ":1",
			"e"},
		{"not enough", []*v1.Pod{named("e", best, 0), named("b", burst, 0, "memory", "100Mi")}, "150Mi",
			"no set of running pods found to reclaim resources: [(res: memory, q: 52428800), ]"},
	} {
		var from []victim
		for _, p := range c.pods {
			from = append(from, victim{p.UID, claimOf(p)})
		}

		needs := []need{{v1.ResourceMemory, 0}}
		if places, ok := strings.CutPrefix(c.lack, ":"); ok {
			needs[0].resource = v1.ResourcePods
			fmt.Sscan(places, &needs[0].lacks)
		} else {
			q := list("memory", c.lack)["memory"]
			needs[0].lacks = q.Value()
		}

		chosen, err := choose(needs, from)
		var names []string
		for _, v := range chosen {
			names = append(names, string(v.uid))
		}
		slices.Sort(names)
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPreempt: a critical pod waits until the pods that were named have ended, nobody else gets their room, and it is
// told when it may begin.
func TestPreempt(t *testing.T) {
	f := Node{OS: "linux", Object: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		Allocatable: list("cpu", "1", "pods", "9")}
	m := New()
	var told []types.UID
	m.Granted = func(uid types.UID) { told = append(told, uid) }
	low, system := named("low", v1.PodQOSBurstable, 0, "cpu", "600m"), named("system", v1.PodQOSBurstable, critical,
		"cpu", "300m")
	for _, p := range []*v1.Pod{low, system} {
		if r := m.Admit(p, f, false); r != nil {
			t.Fatal(r)
		}
	}

	want := named("critical", v1.PodQOSBurstable, critical+1, "cpu", "500m")
	room, r := m.Preempt(want, f)
	if r != nil || fmt.Sprint(room) != "{[low] cpu true}" {
		t.Fatalf("%+v %v, want low to end", room, r)
	}
	if room, r := m.Preempt(want, f); r != nil || fmt.Sprint(room) != "{[]  true}" {
		t.Errorf("asked again: %+v %v, want to wait and nobody named twice", room, r)
	}
	m.Release("low")
	if r := m.Admit(named("quick", v1.PodQOSBurstable, 0, "cpu", "400m"), f, false); r == nil {
		t.Error("another pod got the room that was made")
	}
	if len(told) != 1 || told[0] != want.UID {
		t.Errorf("told that there is room: %v", told)
	}
	if r := m.Admit(want, f, false); r != nil {
		t.Errorf("after the others have ended: %v", r)
	}

	// One of a higher priority takes the place of a critical one, one of the same does not.
	same := named("same", v1.PodQOSBurstable, critical, "cpu", "300m")
	if _, r := m.Preempt(same, f); r == nil || r.Reason != "UnexpectedAdmissionError" || m.Holds(same.UID) {
		t.Errorf("a pod of the same priority: %v", r)
	}
	higher := named("higher", v1.PodQOSBurstable, critical+1, "cpu", "300m")
	if room, r := m.Preempt(higher, f); r != nil || fmt.Sprint(room.Victims) != "[system]" {
		t.Errorf("a pod of a higher priority: %+v %v", room, r)
	}
	m.Release(higher.UID) // it was deleted: what system gives up is for anybody
	m.Release(system.UID)
	if len(told) != 1 {
		t.Errorf("somebody was told about a pod that is gone: %v", told)
	}

	elsewhere := with(named("elsewhere", v1.PodQOSBurstable, critical+1, "cpu", "900m"),
		func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	if room, r := m.Preempt(elsewhere, f); r == nil || r.Reason != AffinityReason || len(room.Victims) > 0 {
		t.Errorf("a pod that belongs elsewhere: %+v %v", room, r)
	}
}
