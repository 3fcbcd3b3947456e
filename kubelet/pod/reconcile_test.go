package pod

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fresh is an admitted pod with container c, of which the node has done nothing yet.
func fresh(changes ...func(*State)) *State {
	s := &State{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Generation: 4},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "c", Image: "i"}}}},
		Admitted: true, Runtime: &Runtime{}, Images: map[string]Image{}, Failures: map[string]*Failure{},
		Backoffs: map[string]Backoff{}, Probes: map[string]Probe{}, InFlight: map[string]time.Time{}}
	for _, f := range changes {
		f(s)
	}
	return s
}

func sandbox(s *State) {
	s.VolumesReady = true
	s.Runtime.Sandboxes = []Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.5"}}}
}

func image(s *State) {
	s.Images["c"] = Image{Ref: "sha256:i"}
	s.Images["init"] = Image{Ref: "sha256:i"}
}

func policy(p v1.RestartPolicy) func(*State) { return func(s *State) { s.Pod.Spec.RestartPolicy = p } }

func initContainer(s *State) { s.Pod.Spec.InitContainers = []v1.Container{{Name: "init", Image: "i"}} }

func running(name string) func(*State) {
	return func(s *State) {
		s.Runtime.Containers = append(s.Runtime.Containers, Container{ID: name + "1", SandboxID: "s", Name: name, State: Running, StartedAt: now})
	}
}

func exited(name string, attempt uint32, code int32) func(*State) {
	return func(s *State) {
		s.Runtime.Containers = append(s.Runtime.Containers, Container{ID: name + "1", SandboxID: "s", Name: name, Attempt: attempt, State: Exited,
			ExitCode: code, FinishedAt: now.Add(-time.Second)})
	}
}

func deleted(grace int64) func(*State) {
	return func(s *State) {
		t := metav1.NewTime(now)
		s.Pod.DeletionTimestamp, s.Pod.DeletionGracePeriodSeconds = &t, &grace
	}
}

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name  string
		state *State
		phase v1.PodPhase
		plan  string // actions, separated by "; "
	}{
		{"new: volumes, sandbox and image at the same time", fresh(), v1.PodPending, "prepare-volumes; create-sandbox attempt=0; ensure-image c"},
		{"unknown runtime: nothing", fresh(func(s *State) { s.Runtime = nil }), v1.PodPending, ""},
		{"not admitted: nothing", fresh(func(s *State) { s.Admitted = false }), v1.PodPending, ""},
		{"all there: start", fresh(sandbox, image), v1.PodPending, "start-container c s attempt=0"},
		{"no start without volumes", fresh(sandbox, image, func(s *State) { s.VolumesReady = false }), v1.PodPending, "prepare-volumes"},
		{"start in flight: not twice", fresh(sandbox, image, func(s *State) { s.InFlight["start/c"] = now }), v1.PodPending, ""},
		{"a container that is being started is left alone", fresh(sandbox, image, func(s *State) {
			s.InFlight["start/c"] = now
			s.Runtime.Containers = []Container{{ID: "c1", Name: "c", State: Created}}
		}), v1.PodPending, ""},
		{"made but never started: away with it", fresh(sandbox, image, func(s *State) {
			s.Runtime.Containers = []Container{{ID: "c1", Name: "c", State: Created}}
		}), v1.PodPending, "remove-container c c1"},
		{"runs: rest", fresh(sandbox, image, running("c")), v1.PodRunning, ""},
		{"first exit: restart at once", fresh(sandbox, image, exited("c", 0, 1)), v1.PodRunning, "start-container c s attempt=1"},
		{"in back-off: wait", fresh(sandbox, image, exited("c", 1, 1), func(s *State) {
			s.Backoffs["c"] = Backoff{Delay: 10 * time.Second, At: now.Add(-2 * time.Second)}
		}), v1.PodRunning, ""},
		{"OnFailure and 0: done, stop the sandbox", fresh(sandbox, policy(v1.RestartPolicyOnFailure), exited("c", 0, 0)), v1.PodSucceeded, "stop-sandbox s"},
		{"Never and 1: failed", fresh(sandbox, policy(v1.RestartPolicyNever), exited("c", 0, 1)), v1.PodFailed, "stop-sandbox s"},
		{"init first", fresh(sandbox, image, initContainer), v1.PodPending, "start-container init s attempt=0"},
		{"init runs: wait", fresh(sandbox, image, initContainer, running("init")), v1.PodPending, ""},
		{"init done: start", fresh(sandbox, image, initContainer, exited("init", 0, 0)), v1.PodPending, "start-container c s attempt=0"},
		{"init failed, Never: failed", fresh(sandbox, image, initContainer, policy(v1.RestartPolicyNever), exited("init", 0, 2)), v1.PodFailed, "stop-sandbox s"},
		{"deleted: stop with its grace", fresh(sandbox, running("c"), deleted(7)), v1.PodRunning, "stop-container c c1 grace=7s"},
		{"deleted, grace shrinks: stop again", fresh(sandbox, running("c"), deleted(2), func(s *State) {
			s.InFlight["stop/c1"] = now.Add(30 * time.Second)
		}), v1.PodRunning, "stop-container c c1 grace=2s"},
		{"deleted while a start is in flight: wait for it", fresh(sandbox, deleted(7), func(s *State) { s.InFlight["start/c"] = now }), v1.PodPending, ""},
		{"deleted before start: failed", fresh(sandbox, deleted(7)), v1.PodFailed, "stop-sandbox s"},
		{"image changed: restart", fresh(sandbox, running("c"), func(s *State) { s.Runtime.Containers[0].Hash = "other" }), v1.PodRunning, "stop-container c c1 grace=30s"},
		{"orphan: stop with a second", &State{Runtime: &Runtime{Containers: []Container{{ID: "x", Name: "c", State: Running}}}}, "", "stop-container c x grace=1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Reconcile(c.state, Facts{HostIPs: []string{"10.0.0.1"}, RuntimeName: "containerd"}, now)
			if got := strings.ReplaceAll(strings.TrimSpace(p.Dump()), "\n", "; "); got != c.plan {
				t.Errorf("plan %q, want %q", got, c.plan)
			}
			if p.Status.Phase != c.phase {
				t.Errorf("phase %q, want %q", p.Status.Phase, c.phase)
			}
		})
	}
}

func TestTerminalPhaseIsKept(t *testing.T) {
	s := fresh(sandbox, policy(v1.RestartPolicyNever), exited("c", 0, 0))
	p := Reconcile(s, Facts{}, now)
	s.Last = &p.Status
	s.Runtime = &Runtime{} // the runtime lost everything
	if p = Reconcile(s, Facts{}, now); p.Status.Phase != v1.PodSucceeded || p.Status.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("after the loss: %s, %+v", p.Status.Phase, p.Status.ContainerStatuses[0].State)
	}
}

func TestMergeNeverGoesBack(t *testing.T) {
	r := &Runtime{Containers: []Container{{ID: "x", State: Exited, ExitCode: 3}}}
	out := r.Merge(&Runtime{Containers: []Container{{ID: "x", State: Running}, {ID: "y", State: Created}}})
	if out.Containers[0].State != Exited || len(out.Containers) != 2 || len(r.Containers) != 1 {
		t.Errorf("got %+v from %+v", out, r)
	}
}

func TestBackoffGrowsAndForgets(t *testing.T) {
	at, b := nextStart(Backoff{}, now, Facts{})
	if !at.Equal(now) || b.Delay != 10*time.Second {
		t.Errorf("first: %v %v", at, b)
	}
	b.At = now
	at, b = nextStart(b, now.Add(time.Second), Facts{})
	if !at.Equal(now.Add(11*time.Second)) || b.Delay != 20*time.Second {
		t.Errorf("second: %v %v", at, b)
	}
	b.At = now
	if at, b = nextStart(b, now.Add(11*time.Minute), Facts{}); !at.Equal(now.Add(11*time.Minute)) || b.Delay != 10*time.Second {
		t.Errorf("after quiet: %v %v", at, b)
	}
}
