package pod

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fresh is an admitted pod with container c, of which the node has done nothing yet.
func fresh(changes ...func(*State)) *State {
	s := NewState()
	s.pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Generation: 4},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	s.source.pod, s.admitted, s.runtime.Runtime, s.source.ready = s.pod, true, &observed.Runtime{}, true
	for _, f := range changes {
		f(s)
	}
	return s
}

func sandbox(s *State) {
	s.volumes.ready = true
	s.runtime.Sandboxes = []observed.Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.5"}}}
}

func image(s *State) {
	s.images["c"] = Image{Ref: "sha256:i"}
	s.images["init"] = Image{Ref: "sha256:i"}
}

func policy(p v1.RestartPolicy) func(*State) { return func(s *State) { s.pod.Spec.RestartPolicy = p } }

func initContainer(s *State) { s.pod.Spec.InitContainers = []v1.Container{{Name: "init", Image: "i"}} }

func running(name string) func(*State) {
	return func(s *State) {
		s.runtime.Containers = append(s.runtime.Containers,
			observed.Container{ID: name + "1", SandboxID: "s", Name: name, State: observed.Running, StartedAt: now})
	}
}

func exited(name string, attempt uint32, code int32) func(*State) {
	return func(s *State) {
		s.runtime.Containers = append(s.runtime.Containers,
			observed.Container{ID: name + "1", SandboxID: "s", Name: name, Attempt: attempt, State: observed.Exited,
				ExitCode: code, FinishedAt: now.Add(-time.Second)})
	}
}

func deleted(grace int64) func(*State) {
	return func(s *State) {
		t := metav1.NewTime(now)
		s.pod.DeletionTimestamp, s.pod.DeletionGracePeriodSeconds = &t, &grace
	}
}

func dead(id, why string) func(*State) {
	return func(s *State) {
		no := false
		s.probes[id[:len(id)-1]] = Probe{ContainerID: id, Live: &no, Message: why}
	}
}

// stopping adds a StopContainer action that is in flight.
func stopping(id string) func(*State) {
	return func(s *State) { s.tasks.inFlight[stopKey(id)] = now.Add(30 * time.Second) }
}

func second(s *State) {
	s.pod.Spec.Containers = append(s.pod.Spec.Containers, v1.Container{Name: "d", Image: "i"})
}

func addSidecar(s *State, name string) {
	always := v1.ContainerRestartPolicyAlways
	s.pod.Spec.InitContainers = append(s.pod.Spec.InitContainers,
		v1.Container{Name: name, Image: "i", RestartPolicy: &always})
	s.images[name] = Image{Ref: "sha256:i"}
}

func sidecarC(s *State) { addSidecar(s, "side") }

func containerPolicy(p v1.ContainerRestartPolicy) func(*State) {
	return func(s *State) { s.pod.Spec.InitContainers[0].RestartPolicy = &p }
}

func rule(op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) func(*State) {
	return func(s *State) {
		s.pod.Spec.InitContainers[0].RestartPolicyRules = []v1.ContainerRestartRule{
			{Action: v1.ContainerRestartRuleActionRestart,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}}
	}
}

func ephemeral(s *State) {
	s.pod.Spec.EphemeralContainers = []v1.EphemeralContainer{
		{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
	s.images["e"] = Image{Ref: "sha256:i"}
}

func activeFor(seconds int64) func(*State) {
	return func(s *State) { s.pod.Spec.ActiveDeadlineSeconds = &seconds }
}

func startedAgo(d time.Duration) func(*State) {
	return func(s *State) {
		t := metav1.NewTime(now.Add(-d))
		s.pod.Status.StartTime = &t
	}
}

func told(f Fact) func(*State) { return func(s *State) { f.take(s, now) } }

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name  string
		state *State
		phase v1.PodPhase
		plan  string // actions, separated by "; "
	}{

		{"not admitted: nothing", fresh(func(s *State) { s.admitted = false }), v1.PodPending, ""},
		{"OnFailure and 0: done, stop the sandbox",
			fresh(sandbox, policy(v1.RestartPolicyOnFailure), exited("c", 0, 0)), v1.PodSucceeded, "stop-sandbox s"},
		{"OnFailure, stopped for its probe, ended with 0: start again",
			fresh(sandbox, image, policy(v1.RestartPolicyOnFailure), exited("c", 0, 0),
				dead("c1", "failed startup probe")), v1.PodRunning,
			"start-container c s attempt=1"},
		{"Never, stopped for its probe, ended with 0: done",
			fresh(sandbox, image, policy(v1.RestartPolicyNever), exited("c", 0, 0), dead("c1", "failed startup probe")),
			v1.PodSucceeded, "stop-sandbox s"},
		{"Never and 1: failed", fresh(sandbox, policy(v1.RestartPolicyNever), exited("c", 0, 1)), v1.PodFailed,
			"stop-sandbox s"},
		{"deleted while a start is in flight: wait for it",
			fresh(sandbox, deleted(7), func(s *State) { s.tasks.inFlight["start/c"] = now }), v1.PodPending, ""},
		{"deleted before start: failed", fresh(sandbox, deleted(7)), v1.PodFailed, "stop-sandbox s"},
		{"image changed: restart",
			fresh(sandbox, running("c"), func(s *State) { s.runtime.Containers[0].Hash = "other" }), v1.PodRunning,
			"stop-container c c1 grace=30s"},
		{"liveness failed: stop with the pod's grace",
			fresh(sandbox, running("c"), dead("c1", "failed liveness probe")), v1.PodRunning,
			"stop-container c c1 grace=30s"},
		{"two containers: one after the other",
			fresh(sandbox, image, second, func(s *State) { s.images["d"] = Image{Ref: "r"} }), v1.PodPending,
			"start-container c s attempt=0"},
		{"two containers: the second when the first runs",
			fresh(sandbox, image, second, running("c"), func(s *State) { s.images["d"] = Image{Ref: "r"} }),
			v1.PodPending, "start-container d s attempt=0"},
		{"restart half made: still Running", fresh(sandbox, image, exited("c", 0, 1), func(s *State) {
			s.tasks.inFlight["start/c"] = now
			s.runtime.Containers = append(s.runtime.Containers,
				observed.Container{ID: "c2", SandboxID: "s", Name: "c", Attempt: 1, State: observed.Created})
		}), v1.PodRunning, ""},
		{"removing failed: not at once again", fresh(sandbox, running("c"), exited("c", 0, 1), func(s *State) {
			s.runtime.Containers[0].Attempt, s.runtime.Containers[1].ID = 2, "c0"
			s.runtime.Containers = append(s.runtime.Containers,
				observed.Container{ID: "cx", SandboxID: "s", Name: "c", State: observed.Exited,
					CreatedAt: now.Add(-time.Hour)})
			s.tasks.failures[RemoveKey] = &Failure{RetryAt: now.Add(time.Second)}
		}), v1.PodRunning, ""},
		{"sidecar with a startup probe that has not succeeded: wait",
			fresh(sandbox, image, sidecarC, running("side"), func(s *State) {
				s.pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
			}), v1.PodPending, ""},
		{"sidecar failed its liveness probe: stop",
			fresh(sandbox, image, sidecarC, running("side"), running("c"), dead("side1", "failed liveness probe")),
			v1.PodRunning, "stop-container side side1 grace=30s"},
		{"sidecar failed its liveness probe while the last container is stopped for good: leave it",
			fresh(sandbox, image, sidecarC, policy(v1.RestartPolicyNever), running("side"), running("c"),
				stopping("c1"), dead("side1", "failed liveness probe")), v1.PodRunning, ""},
		{"sidecar ended while the last container is stopped for good: leave it",
			fresh(sandbox, image, sidecarC, policy(v1.RestartPolicyNever), exited("side", 0, 1), running("c"),
				stopping("c1")), v1.PodRunning, ""},
		{"sidecar ended while one of two containers is stopped: restart",
			fresh(sandbox, image, sidecarC, policy(v1.RestartPolicyNever), second, exited("side", 0, 1), running("c"),
				running("d"), stopping("c1")), v1.PodRunning,
			"start-container side s attempt=1"},
		{"sidecar ended while the last container is stopped to run again: restart",
			fresh(sandbox, image, sidecarC, exited("side", 0, 1), running("c"), stopping("c1")), v1.PodRunning,
			"start-container side s attempt=1"},
		{"sidecar of another image: stop",
			fresh(sandbox, image, sidecarC, running("side"), running("c"), func(s *State) {
				s.runtime.Containers[0].Hash = "other"
			}), v1.PodRunning, "stop-container side side1 grace=30s"},
		{"init of its own policy Never failed",
			fresh(sandbox, image, initContainer, containerPolicy(v1.ContainerRestartPolicyNever), exited("init", 0, 2)),
			v1.PodFailed, "stop-sandbox s"},
		{"init with a rule for its code: again",
			fresh(sandbox, image, initContainer, policy(v1.RestartPolicyNever),
				rule(v1.ContainerRestartRuleOnExitCodesOpIn, 42), exited("init", 0, 42)), v1.PodPending,
			"start-container init s attempt=1"},
		{"init with a rule for other codes: failed",
			fresh(sandbox, image, initContainer, policy(v1.RestartPolicyNever),
				rule(v1.ContainerRestartRuleOnExitCodesOpNotIn, 42), exited("init", 0, 42)), v1.PodFailed,
			"stop-sandbox s"},
		{"ephemeral container half made: away with it", fresh(sandbox, image, running("c"), ephemeral, func(s *State) {
			s.runtime.Containers = append(s.runtime.Containers,
				observed.Container{ID: "e1", Name: "e", State: observed.Created})
		}), v1.PodRunning, "remove-container e e1"},
		{"deadline ahead: rest", fresh(sandbox, running("c"), activeFor(5), startedAgo(4*time.Second)), v1.PodRunning,
			""},
		{"somebody wrote Failed: stop",
			fresh(sandbox, running("c"), func(s *State) { s.pod.Status.Phase = v1.PodFailed }), v1.PodFailed,
			"stop-container c c1 grace=30s"},
		{"gone from the API by force: a second",
			fresh(sandbox, running("c"), deleted(0), func(s *State) { s.source.gone = true }), v1.PodRunning,
			"stop-container c c1 grace=1s"},
		{"static and gone: no phase is forced on it",
			fresh(sandbox, func(s *State) { s.source.static, s.source.gone = true, true }), v1.PodPending,
			"stop-sandbox s"},
		{"evicted and exited with 0: Failed", fresh(sandbox, exited("c", 0, 0), told(Evicted{Reason: "Evicted"})),
			v1.PodFailed, "stop-sandbox s"},
		{"preempted and exited with 0: Succeeded",
			fresh(sandbox, exited("c", 0, 0), told(Evicted{Reason: "Preempting", ByContainers: true})), v1.PodSucceeded,
			"stop-sandbox s"},
		{"preempted and exited with 1: Failed",
			fresh(sandbox, exited("c", 0, 1), told(Evicted{Reason: "Preempting", ByContainers: true})), v1.PodFailed,
			"stop-sandbox s"},
		{"preempted before a container started: Failed",
			fresh(sandbox, told(Evicted{Reason: "Preempting", ByContainers: true})), v1.PodFailed, "stop-sandbox s"},
	} {

		t.Run(c.name, func(t *testing.T) {
			p := Reconcile(c.state, Node{HostIPs: []string{"10.0.0.1"}, RuntimeName: "containerd"}, now)
			if broken := Broken(c.state, &p); broken != nil {
				t.Errorf("broken: %v", broken)
			}
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
	p := Reconcile(s, Node{}, now)
	s.last = &p.Status
	s.runtime.Runtime = &observed.Runtime{} // the runtime lost everything
	if p = Reconcile(s, Node{}, now); p.Status.Phase != v1.PodSucceeded ||
		p.Status.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("after the loss: %s, %+v", p.Status.Phase, p.Status.ContainerStatuses[0].State)
	}
}

func TestBackoffGrowsAndForgets(t *testing.T) {
	at, b := nextStart(Backoff{}, now, Node{})
	if !at.Equal(now) || b.Delay != 10*time.Second {
		t.Errorf("first: %v %v", at, b)
	}
	b.At = now
	at, b = nextStart(b, now.Add(time.Second), Node{})
	if !at.Equal(now.Add(11*time.Second)) || b.Delay != 20*time.Second {
		t.Errorf("second: %v %v", at, b)
	}
	b.At = now
	if at, b = nextStart(b, now.Add(11*time.Minute), Node{}); !at.Equal(now.Add(11*time.Minute)) ||
		b.Delay != 10*time.Second {
		t.Errorf("after quiet: %v %v", at, b)
	}
}
