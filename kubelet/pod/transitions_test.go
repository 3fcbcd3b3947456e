package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
	"porthole.dev/porthole/kubelet/pod/observed"
)

// transition is one line of the table in doc.go.
type transition struct{ part, state, fact, next string }

func readTable(t *testing.T) (lines []transition) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	in := false
	for _, l := range strings.Split(string(text), "\n") {
		f := strings.Fields(strings.TrimPrefix(l, "//"))
		switch {
		case len(f) >= 4 && f[0] == "part":
			in = true
		case in && len(f) < 4:
			return lines
		case in:
			lines = append(lines, transition{f[0], f[1], f[2], f[3]})
		}
	}
	return lines
}

// factSources are the names of the types that the source gives the method of a fact.
func factSources(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	method := regexp.MustCompile(`(?m)^func \((?:f )?(\w+)\) take\(`)
	out := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range method.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
	}
	return out
}

// part is a part of the state, its states with the facts that lead to each, and samples of the facts of the table.
type part struct {
	name   func(s *State) string
	states map[string][]Fact
	facts  []Fact
	// seen are facts that may change the part in states that the table does not name, because they bring something new.
	seen []Fact
}

// The objects that the table is played with: container c in sandbox b.
var (
	tableTime = now.Add(-time.Minute)
	tablePod  = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 1},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	tableBox   = observed.Sandbox{ID: "b", Ready: true, IPs: []string{"10.0.0.1"}, CreatedAt: tableTime}
	tableStart = observed.Container{ID: "c1", SandboxID: "b", Name: "c", State: observed.Running, CreatedAt: tableTime,
		StartedAt: tableTime}
)

func changedPod(change func(p *v1.Pod)) *v1.Pod {
	p := tablePod.DeepCopy()
	p.Generation++
	change(p)
	return p
}

func has(boxes []observed.Sandbox, containers ...observed.Container) Fact {
	return Observed{Runtime: &observed.Runtime{Sandboxes: boxes, Containers: containers}}
}

func begins(kind Kind, key, id string) Fact {
	return ActionStarted{Action{Kind: kind, Key: key, ID: id, Name: "c"}}
}

func panics(kind Kind, key, id string) Fact {
	return TaskPanicked{Action: Action{Kind: kind, Key: key, ID: id, Name: "c"}, Message: "x"}
}

// after is a list of facts with more at its end.
func after(first []Fact, more ...Fact) []Fact { return append(slices.Clone(first), more...) }

func parts() map[string]part {
	known := []Fact{Desired{Pod: tablePod}, Checked{Runtime: &observed.Runtime{}, Began: tableTime}, SourcesReady{},
		Recalled{}}
	base := after(known, Admitted{})
	return map[string]part{
		"source": sourcePart(base), "admission": admissionPart(known), "runtime": runtimePart(),
		"action":  actionPart(base),
		"volumes": volumesPart(base), "image": imagePart(base), "sandbox": sandboxPart(base),
		"container": containerPart(base),
		"hook":      hookPart(base), "probe": probePart(base), "resize": resizePart(base), "end": endPart(base),
		"report": reportPart(base),
	}
}

func sourcePart([]Fact) part {
	old := metav1.NewTime(tableTime)
	deleted := Desired{Pod: changedPod(func(p *v1.Pod) { p.DeletionTimestamp = &old })}
	return part{
		name: func(s *State) string {
			switch {
			case s.pod == nil && s.source.ready:
				return "orphan"
			case s.pod == nil:
				return "unknown"
			case s.pod.Status.Phase == v1.PodFailed:
				return "stripped"
			case s.source.gone:
				return "gone"
			case s.pod.DeletionTimestamp != nil:
				return "deleted"
			}
			return "wanted"
		},
		states: map[string][]Fact{"unknown": nil, "orphan": {SourcesReady{}}, "wanted": {Desired{Pod: tablePod}},
			"gone": {Desired{Pod: tablePod}, SourceGone{Pod: tablePod}}, "deleted": {deleted}},
		facts: []Fact{Stripped{}},
		seen:  []Fact{Desired{Pod: tablePod}, SourceGone{Pod: tablePod}, SourcesReady{}},
	}
}

func admissionPart(known []Fact) part {
	return part{
		name: func(s *State) string {
			switch {
			case s.admitted:
				return "admitted"
			case s.ending.stop != nil:
				return "refused"
			}
			return "open"
		},
		states: map[string][]Fact{"open": known, "admitted": after(known, Admitted{}),
			"refused": after(known, Refused{Reason: "OutOfcpu"})},
		facts: []Fact{Admitted{}, Refused{Reason: "NodePorts"}},
	}
}

func runtimePart() part {
	return part{
		name: func(s *State) string {
			if !s.runtime.read() {
				return "unread"
			}
			return "read"
		},
		states: map[string][]Fact{"unread": {Desired{Pod: tablePod}}, "read": {Checked{Runtime: &observed.Runtime{}}}},
		facts: []Fact{Checked{Runtime: &observed.Runtime{Sandboxes: []observed.Sandbox{tableBox}}, Began: now},
			has([]observed.Sandbox{tableBox}), Removed{ID: "b"}},
	}
}

func actionPart(base []Fact) part {
	begin := begins(StopContainer, "stop/c1", "c1")
	return part{
		name: func(s *State) string {
			if s.tasks.busy("stop/c1") {
				return "in-flight"
			}
			return "idle"
		},
		states: map[string][]Fact{"idle": base, "in-flight": after(base, begin)},
		facts:  []Fact{begin, ActionDropped{Key: "stop/c1"}, panics(StopContainer, "stop/c1", "c1")},
	}
}

func volumesPart(base []Fact) part {
	begin := begins(PrepareVolumes, VolumesKey, "")
	return part{
		name: func(s *State) string {
			switch {
			case s.volumes.ready:
				return "ready"
			case s.tasks.busy(VolumesKey):
				return "preparing"
			case s.volumes.failure != nil:
				return "failed"
			}
			return "missing"
		},
		states: map[string][]Fact{"missing": base, "preparing": after(base, begin),
			"ready":  after(base, begin, VolumesPrepared{}),
			"failed": after(base, begin, VolumesFailed{Message: "old"})},
		facts: []Fact{VolumesPrepared{}, VolumesFailed{Message: "x"}, panics(PrepareVolumes, VolumesKey, "")},
	}
}

func imagePart(base []Fact) part {
	begin, asked := begins(EnsureImage, "image/c", ""), ImageAsked{Container: "c", Image: "i"}
	present, failed := ImagePresent{ImageAsked: asked, Ref: "r"}, ImageFailed{ImageAsked: asked, Reason: "ErrImagePull",
		RetryAt: now}
	return part{
		name: func(s *State) string {
			switch img := s.images["c"]; {
			case s.tasks.busy("image/c"):
				return "pulling"
			case img.Ref != "":
				return "present"
			case img.Failure != nil:
				return "failed"
			}
			return "missing"
		},
		states: map[string][]Fact{"missing": base, "pulling": after(base, begin),
			"present": after(base, begin, present), "failed": after(base, begin, failed)},
		facts: []Fact{present, failed, panics(EnsureImage, "image/c", "")},
		seen:  []Fact{Desired{Pod: changedPod(func(p *v1.Pod) { p.Spec.Containers[0].Image = "j" })}},
	}
}

func sandboxPart(base []Fact) part {
	begin := begins(CreateSandbox, SandboxKey, "")
	down := tableBox
	down.Ready = false
	ready := after(base, begin, SandboxMade{tableBox})
	isDown := after(ready, has([]observed.Sandbox{down}))

	return part{
		name: func(s *State) string {
			box := s.runtime.NewestSandbox()
			switch {
			case s.tasks.busy(SandboxKey):
				return "making"
			case box == nil:
				return "none"
			case s.tasks.busy("stop-sandbox/b"):
				return "stopping"
			case s.tasks.busy("remove/b"):
				return "removing"
			case box.Ready:
				return "ready"
			}
			return "down"
		},
		states: map[string][]Fact{"none": base, "making": after(base, begin), "ready": ready, "down": isDown,
			"stopping": after(ready, begins(StopSandbox, "stop-sandbox/b", "b")),
			"removing": after(isDown, begins(RemoveSandbox, "remove/b", "b"))},
		facts: []Fact{SandboxMade{tableBox}, SandboxFailed{Message: "x"}, SandboxStopped{ID: "b"},
			SandboxStopFailed{ID: "b"}, RemoveDone{ID: "b"},
			RemoveFailed{ID: "b"}, panics(CreateSandbox, SandboxKey, "")},
		seen: []Fact{has([]observed.Sandbox{down})},
	}
}

func containerPart(base []Fact) part {
	begin := begins(StartContainer, "start/c", "b")
	half, ended := tableStart, tableStart
	half.State, ended.State, ended.FinishedAt = observed.Created, observed.Exited, tableTime
	runs := after(base, begin, ContainerStarted{Container: tableStart})
	hasEnded := after(runs, has(nil, ended))

	return part{
		name: func(s *State) string {
			c := s.runtime.Newest("c")
			switch {
			case s.tasks.busy("start/c"):
				return "starting"
			case c == nil:
				return "none"
			case s.tasks.busy("stop/c1"):
				return "stopping"
			case s.tasks.busy("remove/c1"):
				return "removing"
			}
			return c.State.String()
		},
		states: map[string][]Fact{"none": base, "starting": after(base, begin), "running": runs, "exited": hasEnded,
			"created":  after(base, begin, StartFailed{Name: "c", Container: &half}),
			"stopping": after(runs, begins(StopContainer, "stop/c1", "c1")),
			"removing": after(hasEnded, begins(RemoveContainer, "remove/c1", "c1"))},
		facts: []Fact{ContainerStarted{Container: tableStart}, StartFailed{Name: "c", Reason: "x", Container: &half},
			ContainerStopped{Key: "stop/c1", ID: "c1", Container: &ended}, StopFailed{Key: "stop/c1"},
			RemoveDone{ID: "c1"}, RemoveFailed{ID: "c1"},
			panics(StartContainer, "start/c", "b")},
		seen: []Fact{has(nil, ended)},
	}
}

func hookPart(base []Fact) part {
	started := ContainerStarted{Container: tableStart, Hook: true}
	starting := after(base, begins(StartContainer, "start/c", "b"))
	waits, begin := after(starting, started), begins(RunHook, "start/c/hook", "c1")
	done, failed := HookDone{Name: "c", ContainerID: "c1"}, HookFailed{Name: "c", ContainerID: "c1", Message: "x"}

	return part{
		name: func(s *State) string {
			hook := s.hooks["c"]
			switch {
			case s.tasks.busy("start/c"):
				return "starting"
			case s.tasks.busy("start/c/hook"):
				return "running"
			case hook.Failed:
				return "failed"
			case hook.Done:
				return "done"
			case hook.ContainerID != "":
				return "waiting"
			}
			return "none"
		},
		states: map[string][]Fact{"none": base, "starting": starting, "waiting": waits, "running": after(waits, begin),
			"done":   after(waits, begin, done),
			"failed": after(waits, begin, failed)},
		facts: []Fact{done, failed, panics(RunHook, "start/c/hook", "c1")},
		seen:  []Fact{started, begin},
	}
}

func probePart(base []Fact) part {
	runs := after(base, has(nil, tableStart))
	probed := Probed{Container: "c", ContainerID: "c1", Kind: ReadinessProbe, Success: true}
	newer := tableStart
	newer.ID, newer.Attempt = "c2", 1
	return part{
		name: func(s *State) string {
			c, ok := s.runtime.Latest("c")
			switch {
			case !ok:
				return "none"
			case c.ID != "c1":
				return "replaced"
			case s.probes["c"].ContainerID == "c1":
				return "known"
			}
			return "unknown"
		},
		states: map[string][]Fact{"none": base, "unknown": runs, "known": after(runs, probed),
			"replaced": after(runs, has(nil, newer))},
		facts: []Fact{Probed{Container: "c", ContainerID: "c1", Kind: LivenessProbe},
			ProbeAdopted{Container: "c", ContainerID: "c1", Ready: true}},
	}
}

func resizePart(base []Fact) part {
	more := Desired{Pod: changedPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources = needs("1", "1Gi") })}
	old := metav1.NewTime(tableTime)
	wants, refused := after(base, ResizeSettled{}, more), ResizeRefused{Reason: v1.PodReasonDeferred, Message: "x"}
	waits, agreed := after(wants, refused), after(wants, ResizeAgreed{})

	return part{
		name: func(s *State) string {
			switch step := s.ResizeStep(); {
			case step == ReadResizeNote:
				return "unread"
			case s.tasks.busy(ResizeKey):
				return "resizing"
			case step == DropResize:
				return "barred"
			case step == KeepRoom && s.resize.Pending != nil:
				return "withdrawn"
			case s.resize.Pending != nil:
				return "waiting"
			case step == AskRoom:
				return "wanting"
			case s.resize.Open:
				return "open"
			}
			return "agreed"
		},
		states: map[string][]Fact{
			"unread": {Desired{Pod: tablePod}, Checked{Runtime: &observed.Runtime{}}, SourcesReady{}},
			"agreed": after(base, ResizeSettled{}), "wanting": wants,
			"waiting": waits, "open": agreed, "withdrawn": after(waits, Desired{Pod: tablePod}),
			"barred":   after(waits, Desired{Pod: changedPod(func(p *v1.Pod) { p.DeletionTimestamp = &old })}),
			"resizing": after(agreed, begins(ResizePod, ResizeKey, ""))},
		facts: []Fact{Recalled{}, ResizeAgreed{}, ResizeRefused{Reason: v1.PodReasonInfeasible, Message: "y"},
			ResizeSettled{},
			Resized{Resources: desired.ResourcesOf(more.Pod)}},
	}
}

func endPart(base []Fact) part {
	stops := after(base, StopBegan{})
	cleaning := after(stops, begins(Cleanup, CleanupKey, ""))
	return part{
		name: func(s *State) string {
			switch {
			case s.ending.reclaimed:
				return "reclaimed"
			case s.ending.cleaned:
				return "cleaned"
			case s.tasks.busy(CleanupKey):
				return "cleaning"
			case s.Stopping():
				return "stopping"
			case s.ending.stop != nil:
				return "told"
			}
			return "running"
		},
		states: map[string][]Fact{"running": base, "told": after(base, NodeShutdown{Grace: time.Second}),
			"stopping": stops, "cleaning": cleaning, "cleaned": after(cleaning, CleanedUp{}),
			"reclaimed": after(cleaning, CleanedUp{}, Reclaimed{})},
		facts: []Fact{NodeShutdown{Grace: time.Minute}, Evicted{Reason: "Evicted"}, Reclaimed{}, StopBegan{},
			CleanedUp{}, CleanupFailed{Message: "x"}},
	}
}

func reportPart(base []Fact) part {
	return part{
		name: func(s *State) string {
			if len(s.events) > 0 {
				return "waiting"
			}
			return "sent"
		},
		states: map[string][]Fact{"sent": base,
			"waiting": {Desired{Pod: tablePod}, Checked{Runtime: &observed.Runtime{}}, Recalled{},
				Refused{Reason: "OutOfcpu"}}},
		facts: []Fact{EventsSent{}},
		seen:  []Fact{Published{Status: v1.PodStatus{Phase: v1.PodRunning}}},
	}
}

func (p part) build(state string) *State {
	s := NewState()
	for _, f := range p.states[state] {
		s.Take(f, tableTime)
	}
	return s
}

// TestTransitions plays the table of doc.go: from each state of each part, each fact of the part leads to where the
// table says, and one that the table does not name changes nothing at all.
func TestTransitions(t *testing.T) {
	all, lines, played := parts(), map[transition]string{}, map[string]bool{}
	for _, l := range readTable(t) {
		played[l.fact] = true
		lines[transition{part: l.part, state: l.state, fact: l.fact}] = l.next
	}

	for name := range factTypes {
		if !played[name] {
			t.Errorf("fact %s is in no line of the table", name)
		}
	}

	for name, p := range all {
		for state := range p.states {
			if got := p.name(p.build(state)); got != state {
				t.Errorf("%s: the facts of state %s lead to %s", name, state, got)
			}
			for i, f := range append(slices.Clone(p.facts), p.seen...) {
				key := transition{part: name, state: state, fact: typeName(f)}
				next, legal := lines[key]
				delete(lines, key)
				s := p.build(state)
				s.Take(f, now)

				what := fmt.Sprintf("%s: %s in state %s", name, key.fact, state)
				switch {
				case legal && p.name(s) != next:
					t.Errorf("%s leads to %s, want %s", what, p.name(s), next)
				case !legal && i < len(p.facts) && !reflect.DeepEqual(s, p.build(state)):
					t.Errorf("%s does not fit, but changes something", what)
				}
			}
		}
	}

	for l, next := range lines {
		t.Errorf("line not played: %s %s %s %s", l.part, l.state, l.fact, next)
	}
}

// TestFailures: where a failure is kept, what it is called, and how the wait before the next try grows.
func TestFailures(t *testing.T) {
	base := []Fact{Desired{Pod: tablePod}, Checked{Runtime: &observed.Runtime{}}, Recalled{}, Admitted{}}
	for _, c := range []struct {
		begin, fact Fact
		key, reason string
		waits       []time.Duration
	}{

		{begins(CreateSandbox, SandboxKey, ""), SandboxFailed{}, SandboxKey, "CreatePodSandboxError",
			[]time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second}},
		{begins(StartContainer, "start/c", ""), StartFailed{Name: "c", Reason: "RunContainerError"}, "c",
			"RunContainerError", []time.Duration{time.Second, 2 * time.Second}},
		{begins(StopContainer, "stop/x/1", "x"), StopFailed{Key: "stop/x/1"}, "stop/x/1", "KillContainerError",
			[]time.Duration{time.Second / 2, time.Second}},
		{begins(StopSandbox, "stop-sandbox/b", "b"), SandboxStopFailed{ID: "b"}, StopSandboxKey, "KillPodSandboxError",
			[]time.Duration{time.Second / 2}},
		{begins(RemoveContainer, "remove/x", "x"), RemoveFailed{ID: "x"}, RemoveKey, "",
			[]time.Duration{time.Second / 2}},
		{begins(Cleanup, CleanupKey, ""), CleanupFailed{}, CleanupKey, "", []time.Duration{time.Second / 2}},
		{begins(ResizePod, ResizeKey, ""), Resized{Failed: true}, ResizeKey, v1.PodReasonError,
			[]time.Duration{2 * time.Second, 4 * time.Second}},
		{begins(RunHook, "start/c/hook", "x"), HookFailed{Name: "c", ContainerID: "x"}, "c", "PostStartHookError",
			[]time.Duration{time.Second}},
		{begins(StartContainer, "start/c", ""), panics(StartContainer, "start/c", ""), "c", "CreateContainerError",
			[]time.Duration{10 * time.Second, 15 * time.Second}},
		{begins(RemoveSandbox, "remove/b", "b"), panics(RemoveSandbox, "remove/b", "b"), RemoveKey, "",
			[]time.Duration{10 * time.Second}},
	} {

		s := NewState()
		for _, f := range base {
			s.Take(f, now)
		}
		for n, wait := range c.waits {
			s.Take(c.begin, now)
			s.Take(c.fact, now)
			f := s.tasks.failures[c.key]
			if f == nil || f.Reason != c.reason || f.Count != n+1 || f.RetryAt.Sub(now) != wait {
				t.Errorf("%T, failure %d: %+v, want reason %s and a wait of %s", c.fact, n+1, f, c.reason, wait)
			}
		}
	}
}

// TestVolumeFailures: volumes are tried again soon, and their failures are reported from the fourth on, unless the pod
// no longer needs them.
func TestVolumeFailures(t *testing.T) {
	s := fresh()
	for n, wait := range []time.Duration{50, 100, 200, 400, 800} {
		s.Take(begins(PrepareVolumes, VolumesKey, ""), now)
		s.Take(VolumesFailed{Message: "x", Failures: []string{"a", "b"}, Cancelled: n == 4}, now)
		if got := s.volumes.failure.RetryAt.Sub(now); got != wait*time.Millisecond {
			t.Errorf("failure %d: wait %s", n+1, got)
		}
		if want := map[int]int{3: 2, 4: 2}[n]; len(s.events) != want {
			t.Errorf("failure %d: events %+v, want %d", n+1, s.events, want)
		}
	}
	if p := Reconcile(s, Node{}, now); len(p.Events) != 2 || p.Events[0].Reason != "FailedMount" ||
		p.Events[1].Message != "b" {
		t.Errorf("events of the plan: %+v", p.Events)
	}
}

// TestNewPodTriesAgain: what failed for the pod as it was is tried at once when it changes, and a new image is asked
// for.
func TestNewPodTriesAgain(t *testing.T) {
	s := fresh(image)
	s.tasks.failures["c"] = &Failure{Reason: "CreateContainerConfigError", RetryAt: now.Add(time.Hour)}
	s.tasks.failures[SandboxKey] = &Failure{RetryAt: now.Add(time.Hour)}
	changed := s.pod.DeepCopy()
	changed.Annotations = map[string]string{"a": "b"}
	s.Take(Desired{Pod: changed}, now)
	if !s.tasks.failures["c"].RetryAt.IsZero() || s.tasks.failures[SandboxKey].RetryAt.IsZero() ||
		s.images["c"].Ref != "sha256:i" {
		t.Errorf("after a new annotation: %+v, %+v", s.tasks.failures["c"], s.images)
	}

	changed = changed.DeepCopy()
	changed.Generation, changed.Spec.Containers[0].Image = changed.Generation+1, "new"
	s.Take(Desired{Pod: changed}, now)
	if _, ok := s.images["c"]; ok {
		t.Error("the reference of the old image is kept")
	}
}
