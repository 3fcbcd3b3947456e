package static

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/pod/desired"
)

func staticPod(name, uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(uid),
		Annotations: map[string]string{HashAnnotation: uid, desired.SourceAnnotation: "file"}}}
}

func mirrorPod(name, uid, hash string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(uid),
		Annotations: map[string]string{MirrorAnnotation: hash}}}
}

func uids(pods []*v1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, string(p.UID))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func expectPods(t *testing.T, what string, got []*v1.Pod, want string) {
	t.Helper()
	if uids(got) != want {
		t.Errorf("%s: %q, want %q", what, uids(got), want)
	}
}

// TestMirrors goes through the table of the type's comment.
func TestMirrors(t *testing.T) {
	s := NewSet(1)
	plan := func(what, create, remove string) {
		t.Helper()
		c, r := s.Plan()
		expectPods(t, what+": create", c, create)
		expectPods(t, what+": remove", r, remove)
	}

	s.Deliver(0, []*v1.Pod{staticPod("a", "h1")})
	plan("none", "h1", "")
	s.SetMirror("d/a", "m1", mirrorPod("a", "m1", "h1"))
	plan("right", "", "")
	deleted := mirrorPod("a", "m1", "h1")
	deleted.DeletionTimestamp = &metav1.Time{}
	s.SetMirror("d/a", "m1", deleted)
	plan("being deleted", "", "m1")
	s.SetMirror("d/a", "m1", nil)
	plan("gone", "h1", "")
	s.SetMirror("d/a", "m2", mirrorPod("a", "m2", "h1"))
	s.SetMirror("d/a", "m1", nil)
	plan("late news of the one before", "", "")
	s.Deliver(0, []*v1.Pod{staticPod("a", "h2")})
	plan("of other content, and what it shows runs", "", "")
	s.Finished("h1")
	plan("of other content", "", "m2")
	s.SetMirror("d/a", "m3", mirrorPod("a", "m3", "h2"))
	s.Deliver(0, nil)
	plan("not wanted, and runs", "", "")
	s.Finished("h2")
	plan("not wanted, and ended", "", "m3")
	s.SetMirror("d/b", "m4", mirrorPod("b", "m4", "h9"))
	plan("of a pod that never was", "", "m3 m4")
}

// TestStaticLine: of the pods of one name one runs at a time, in order of arrival, those of an earlier kubelet first.
func TestStaticLine(t *testing.T) {
	s := NewSet(2)
	may := func(what string, p *v1.Pod, want bool) {
		t.Helper()
		if s.MayStart(p) != want {
			t.Errorf("%s: may start is %v", what, !want)
		}
	}

	first, second := staticPod("a", "h1"), staticPod("a", "h2")
	s.Occupied("d/a", "h0")
	changed, gone, _ := s.Deliver(0, []*v1.Pod{first})
	expectPods(t, "new", changed, "h1")
	expectPods(t, "gone", gone, "")
	may("behind what the runtime has", first, false)
	if got := s.Predecessors(); !slices.Equal(got, []types.UID{"h0"}) {
		t.Errorf("predecessors: %v", got)
	}
	if next, again := s.Finished("h0"); next != "h1" || again != nil {
		t.Errorf("next is %q, again %v", next, again)
	}

	may("first in line", first, true)
	changed, gone, _ = s.Deliver(0, []*v1.Pod{second})
	expectPods(t, "changed", changed, "h2")
	expectPods(t, "replaced", gone, "h1")
	may("second in line", second, false)
	changed, _, _ = s.Deliver(0, []*v1.Pod{first}) // and back, while the first still ends
	expectPods(t, "back", changed, "h1")
	if next, again := s.Finished("h1"); next != "h2" || again != first {
		t.Errorf("next is %q, again %v", next, again)
	}
	if next, _ := s.Finished("h2"); next != "h1" {
		t.Errorf("next is %q, want the first again", next)
	}

	may("again", first, true)
	_, _, doubles := s.Deliver(1, []*v1.Pod{staticPod("a", "h3")})
	expectPods(t, "a second source with the same name", doubles, "h3")
}

func TestStaticReady(t *testing.T) {
	s := NewSet(2)
	for source := range 2 {
		select {
		case <-s.Ready():
			t.Errorf("ready before source %d delivered", source)
		default:
		}
		s.Deliver(source, nil)
		s.Deliver(source, nil)
	}
	<-s.Ready()
	<-NewSet(0).Ready()
}

func TestMirrorPod(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "nu"}}
	p := staticPod("a", "h1")
	m := Mirror(p, n)
	owner := m.OwnerReferences[0]
	if m.UID != "" || m.Annotations[MirrorAnnotation] != "h1" || owner.Kind != "Node" || owner.UID != "nu" ||
		!*owner.Controller || IsMirror(p) {
		t.Errorf("mirror %+v of %+v", m, p)
	}
}
