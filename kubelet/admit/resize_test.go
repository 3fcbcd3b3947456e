package admit

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestResizeRoom: a resize that finds no room waits for it, says so as upstream does, and the waiting get it in
// upstream's order.
func TestResizeRoom(t *testing.T) {
	m := New()
	var granted []types.UID
	m.Granted = func(uid types.UID) { granted = append(granted, uid) }
	node := list("cpu", "4", "pods", "10")
	pod := func(uid, cpu string, change ...func(*v1.Pod)) *v1.Pod {
		p := asking("cpu", cpu)
		p.UID = types.UID(uid)
		for _, f := range change {
			f(p)
		}
		return p
	}

	urgent := func(p *v1.Pod) { high := int32(1000); p.Spec.Priority = &high }
	guaranteed := func(p *v1.Pod) { p.Status.QOSClass = v1.PodQOSGuaranteed }
	for _, uid := range []string{"old", "new", "sure", "first"} {
		m.held[types.UID(uid)] = claimOf(pod(uid, "1"))
	}

	for _, p := range []*v1.Pod{pod("old", "2"), pod("new", "2"), pod("sure", "2", guaranteed),
		pod("first", "2", urgent)} {
		r := m.Resize(p, node, time.Unix(100, 0))
		if r == nil || r.Reason != "OutOfcpu" ||
			r.Message != "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000" {
			t.Fatalf("%s: %+v", p.UID, r)
		}
		m.waiting[p.UID].since = time.Unix(int64(len(m.waiting)), 0)
	}

	expect := func(when, want string) {
		t.Helper()
		var got []string
		for _, uid := range granted {
			got = append(got, string(uid))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: granted %q, want %q", when, got, want)
		}
	}

	if again := m.Resize(pod("old", "2"), node, time.Unix(100, 0)); again == nil || m.waiting["old"].since.Unix() != 1 {
		t.Errorf("asking again: %+v since %v", again, m.waiting["old"].since)
	}

	m.Keep(pod("old", "1")) // no longer wants it
	expect("one gives up", "")
	if m.waiting["old"] != nil {
		t.Error("who gave up still waits")
	}

	m.Release("old")
	expect("a pod ends", "first")
	if r := m.Resize(pod("first", "2", urgent), node, time.Unix(100, 0)); r != nil {
		t.Errorf("what was granted is refused: %+v", r)
	}
	if r := m.Resize(pod("first", "1", urgent), node, time.Unix(100, 0)); r != nil {
		t.Errorf("less is refused: %+v", r)
	}

	expect("a pod shrinks", "first sure")
	m.Release("nobody")
	expect("nothing was given back", "first sure")
	m.Release("first")
	expect("another pod ends", "first sure new")
	if r := m.Resize(pod("new", "5"), node, time.Unix(100, 0)); r == nil ||
		!requestsEqual(m.held["new"], claimOf(pod("new", "2"))) {
		t.Errorf("more than the node has: %+v, holds %v", r, m.held["new"].requests)
	}
}
