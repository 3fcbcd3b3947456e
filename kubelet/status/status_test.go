package status

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"porthole.dev/porthole/internal/testkit/wait"
)

// api is one pod as the API server keeps it.
type api struct {
	mu      sync.Mutex
	pod     *v1.Pod
	calls   []string
	fail    []error       // of the next patches
	older   bool          // it does not know Resources
	hold    chan struct{} // patches wait for it, when set
	holding chan struct{} // told when one waits
}

func newAPI() *api {
	return &api{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", ResourceVersion: "1",
		Generation: 1}}}
}

func (a *api) PatchPodStatus(_ context.Context, namespace, name string, patch []byte) (*v1.Pod, error) {
	a.mu.Lock()
	hold := a.hold
	a.mu.Unlock()
	if hold != nil {
		a.holding <- struct{}{}
		<-hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	if len(a.fail) > 0 {
		err := a.fail[0]
		a.fail = a.fail[1:]
		a.calls = append(a.calls, "refused")
		return &v1.Pod{}, err // as client-go does
	}
	if namespace != "ns" || name != "p" || !strings.Contains(string(patch), `"uid":"u"`) {
		return nil, errors.New("the patch does not name the pod, or not its UID")
	}

	before, _ := json.Marshal(a.pod)
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.Pod{})
	if err != nil {
		return nil, err
	}
	var p v1.Pod
	if err := json.Unmarshal(after, &p); err != nil {
		return nil, err
	}
	if a.older {
		p.Status.Resources = nil
	}
	a.set(&p)
	a.calls = append(a.calls, "patch "+string(p.Status.Phase))
	return p.DeepCopy(), nil
}

func (a *api) DeletePod(_ context.Context, _, _ string, uid types.UID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, "delete "+string(uid))
	return nil
}

func (a *api) set(p *v1.Pod) {
	n, _ := strconv.Atoi(a.pod.ResourceVersion)
	p.ResourceVersion = strconv.Itoa(n + 1)
	a.pod = p
}

// write changes the status as another client does.
func (a *api) write(change func(*v1.PodStatus)) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pod.DeepCopy()
	change(&p.Status)
	a.set(p)
	return p.DeepCopy()
}

func (a *api) seen() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.calls, "; ")
}

func (a *api) now() v1.PodStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pod.Status
}

func writer(t *testing.T, a *api) *Writer {
	w := New(a, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func condition(t v1.PodConditionType, s v1.ConditionStatus) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: s}
}

func TestLastPatchThenDelete(t *testing.T) {
	a := newAPI()
	w := writer(t, a)
	w.Set(a.pod, v1.PodStatus{Phase: v1.PodRunning}, false, true)
	wait.True(t, 5*time.Second, "Running", func() bool { return a.now().Phase == v1.PodRunning })
	w.Set(a.pod, v1.PodStatus{Phase: v1.PodSucceeded}, true, true)
	w.Set(a.pod, v1.PodStatus{Phase: v1.PodSucceeded}, true, true)
	wait.True(t, 5*time.Second, "the deletion", func() bool { return strings.HasSuffix(a.seen(), "delete u") })
	if got, want := a.seen(), "patch Running; patch Succeeded; delete u"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

func TestTriesAgainAndDropsWhatIsGone(t *testing.T) {
	a := newAPI()
	a.fail = []error{errors.New("busy"), errors.New("busy")}
	w := writer(t, a)
	w.Set(a.pod, v1.PodStatus{Phase: v1.PodRunning}, false, true)
	wait.True(t, 5*time.Second, "Running", func() bool { return a.now().Phase == v1.PodRunning })
	if got := a.seen(); got != "refused; refused; patch Running" {
		t.Errorf("calls %q", got)
	}
	a.fail = []error{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")}
	w.Set(a.pod, v1.PodStatus{Phase: v1.PodFailed}, false, true)
	wait.True(t, 5*time.Second, "the refusal", func() bool { return strings.HasSuffix(a.seen(), "refused") })
	w.Set(a.pod, v1.PodStatus{Phase: v1.PodRunning}, false, true)
	if got := a.seen(); got != "refused; refused; patch Running; refused" {
		t.Errorf("a pod that is gone is written again: %q", got)
	}
}

// TestChangeDuringPatch: a status that turns back to what it was before the patch under way is written too.
func TestChangeDuringPatch(t *testing.T) {
	a := newAPI()
	a.hold, a.holding = make(chan struct{}), make(chan struct{}, 9)
	w := writer(t, a)
	before := a.write(func(s *v1.PodStatus) { s.Phase = v1.PodRunning })
	w.Observe(before)
	ready := v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionTrue)}}
	w.Set(before, ready, false, true)
	<-a.holding
	w.Set(before, v1.PodStatus{Phase: v1.PodRunning}, false, true)
	a.mu.Lock()
	close(a.hold)
	a.hold = nil
	a.mu.Unlock()
	wait.True(t, 5*time.Second, "both patches", func() bool { return strings.Count(a.seen(), "patch") == 2 })
	if c := a.now().Conditions; len(c) != 0 {
		t.Errorf("conditions %+v, want none", c)
	}
}

func TestOtherWriters(t *testing.T) {
	mine := v1.PodStatus{Phase: v1.PodRunning, ObservedGeneration: 2,
		Conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionTrue)}}
	disrupted := condition(v1.DisruptionTarget, v1.ConditionTrue)
	for _, c := range []struct {
		name string
		base v1.PodStatus
		want func(v1.PodStatus) bool
	}{
		{"a condition of theirs stays", v1.PodStatus{Conditions: []v1.PodCondition{disrupted}},
			func(s v1.PodStatus) bool {
				return len(s.Conditions) == 2 && s.Conditions[1].Type == v1.DisruptionTarget
			}},
		{"one of ours is put right",
			v1.PodStatus{Conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionFalse)}},
			func(s v1.PodStatus) bool { return len(s.Conditions) == 1 && s.Conditions[0].Status == v1.ConditionTrue }},
		{"a terminal phase is kept", v1.PodStatus{Phase: v1.PodFailed},
			func(s v1.PodStatus) bool { return s.Phase == v1.PodFailed }},
		{"the generation never goes back", v1.PodStatus{ObservedGeneration: 7},
			func(s v1.PodStatus) bool { return s.ObservedGeneration == 7 }},
		{"what others own stays", v1.PodStatus{QOSClass: v1.PodQOSBurstable, NominatedNodeName: "n"},
			func(s v1.PodStatus) bool { return s.QOSClass == v1.PodQOSBurstable && s.NominatedNodeName == "n" }},
	} {
		if got := Merge(c.base, mine); !c.want(got) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestNoFight: a change of our status by another client is not undone at once, but with our next change.
func TestNoFight(t *testing.T) {
	a := newAPI()
	w := writer(t, a)
	st := v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionTrue)}}
	w.Set(a.pod, st, false, true)
	wait.True(t, 5*time.Second, "Running", func() bool { return a.now().Phase == v1.PodRunning })
	theirs := a.write(func(s *v1.PodStatus) { s.Conditions[0].Status, s.Message = v1.ConditionFalse, "mine now" })
	w.Observe(theirs)
	if a.seen() != "patch Running" {
		t.Fatalf("undone at once: %q", a.seen())
	}
	st.PodIP = "10.0.0.1"
	w.Set(theirs, st, false, true)
	wait.True(t, 5*time.Second, "our next change", func() bool { return a.now().PodIP != "" })
	if s := a.now(); s.Conditions[0].Status != v1.ConditionTrue || s.Message != "" {
		t.Errorf("not put right: %+v", s)
	}
}

// TestOlderAPI: what an API server leaves out because it does not know it is not sent again and again, and keeps
// nothing from ending.
func TestOlderAPI(t *testing.T) {
	a := newAPI()
	a.older = true
	w := writer(t, a)
	st := v1.PodStatus{Phase: v1.PodRunning, Resources: &v1.ResourceRequirements{}}
	w.Set(a.pod, st, false, true)
	wait.True(t, 5*time.Second, "Running", func() bool { return a.now().Phase == v1.PodRunning })
	for range 3 {
		w.Set(a.pod, st, false, true)
	}
	st.Phase = v1.PodSucceeded
	w.Set(a.pod, st, false, true)
	wait.True(t, 5*time.Second, "the end", w.Ended)
	w.Set(a.pod, st, false, true)
	if !w.Ended() || a.seen() != "patch Running; patch Succeeded" {
		t.Errorf("sent %q, ended %v", a.seen(), w.Ended())
	}
	w.Observe(a.write(func(s *v1.PodStatus) { s.Phase = v1.PodRunning }))
	st.Reason = "for another reason"
	w.Set(a.pod, st, false, true)
	wait.True(t, 5*time.Second, "the next change", func() bool { return a.now().Reason != "" })
}

func TestSame(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 300, time.UTC))
	a := v1.PodStatus{StartTime: &at,
		Conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionTrue),
			condition(v1.PodInitialized, v1.ConditionTrue)}}
	b := *a.DeepCopy()
	whole := metav1.NewTime(at.Truncate(time.Second))
	b.StartTime, b.Conditions[0], b.Conditions[1] = &whole, b.Conditions[1], b.Conditions[0]
	if !same(a, b) {
		t.Error("order of conditions or parts of a second count")
	}
	b.Conditions[0].Message = "other"
	if same(a, b) {
		t.Error("a message does not count")
	}
}
