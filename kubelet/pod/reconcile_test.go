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
	s := NewState()
	s.pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Generation: 4},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	s.source, s.admitted, s.runtime, s.sourcesReady = s.pod, true, &Runtime{}, true
	for _, f := range changes {
		f(s)
	}
	return s
}

// orphan is a pod that only the runtime knows.
func orphan(r *Runtime, changes ...func(*State)) *State {
	s := NewState()
	s.runtime, s.sourcesReady = r, true
	for _, f := range changes {
		f(s)
	}
	return s
}

func cleaned(s *State) { s.cleaned = true }

func sandbox(s *State) {
	s.volumesReady = true
	s.runtime.Sandboxes = []Sandbox{{ID: "s", Ready: true, IPs: []string{"10.0.0.5"}}}
}

func image(s *State) {
	s.images["c"] = Image{Ref: "sha256:i"}
	s.images["init"] = Image{Ref: "sha256:i"}
}

func policy(p v1.RestartPolicy) func(*State) { return func(s *State) { s.pod.Spec.RestartPolicy = p } }

func initContainer(s *State) { s.pod.Spec.InitContainers = []v1.Container{{Name: "init", Image: "i"}} }

func running(name string) func(*State) {
	return func(s *State) {
		s.runtime.Containers = append(s.runtime.Containers, Container{ID: name + "1", SandboxID: "s", Name: name, State: Running, StartedAt: now})
	}
}

func exited(name string, attempt uint32, code int32) func(*State) {
	return func(s *State) {
		s.runtime.Containers = append(s.runtime.Containers, Container{ID: name + "1", SandboxID: "s", Name: name, Attempt: attempt, State: Exited,
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

func second(s *State) {
	s.pod.Spec.Containers = append(s.pod.Spec.Containers, v1.Container{Name: "d", Image: "i"})
}

func addSidecar(s *State, name string) {
	always := v1.ContainerRestartPolicyAlways
	s.pod.Spec.InitContainers = append(s.pod.Spec.InitContainers, v1.Container{Name: name, Image: "i", RestartPolicy: &always})
	s.images[name] = Image{Ref: "sha256:i"}
}

func sidecarC(s *State) { addSidecar(s, "side") }
func sidecarB(s *State) { addSidecar(s, "sideb") }

func containerPolicy(p v1.ContainerRestartPolicy) func(*State) {
	return func(s *State) { s.pod.Spec.InitContainers[0].RestartPolicy = &p }
}

func rule(op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) func(*State) {
	return func(s *State) {
		s.pod.Spec.InitContainers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}}
	}
}

func ephemeral(s *State) {
	s.pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
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

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name  string
		state *State
		phase v1.PodPhase
		plan  string // actions, separated by "; "
	}{
		{"new: volumes, sandbox and image at the same time", fresh(), v1.PodPending, "prepare-volumes; create-sandbox attempt=0; ensure-image c"},
		{"unknown runtime: nothing", fresh(func(s *State) { s.runtime = nil }), v1.PodPending, ""},
		{"not admitted: nothing", fresh(func(s *State) { s.admitted = false }), v1.PodPending, ""},
		{"all there: start", fresh(sandbox, image), v1.PodPending, "start-container c s attempt=0"},
		{"no start without volumes", fresh(sandbox, image, func(s *State) { s.volumesReady = false }), v1.PodPending, "prepare-volumes"},
		{"start in flight: not twice", fresh(sandbox, image, func(s *State) { s.inFlight["start/c"] = now }), v1.PodPending, ""},
		{"a container that is being started is left alone", fresh(sandbox, image, func(s *State) {
			s.inFlight["start/c"] = now
			s.runtime.Containers = []Container{{ID: "c1", Name: "c", State: Created}}
		}), v1.PodPending, ""},
		{"made but never started: away with it", fresh(sandbox, image, func(s *State) {
			s.runtime.Containers = []Container{{ID: "c1", Name: "c", State: Created}}
		}), v1.PodPending, "remove-container c c1"},
		{"runs: rest", fresh(sandbox, image, running("c")), v1.PodRunning, ""},
		{"first exit: restart at once", fresh(sandbox, image, exited("c", 0, 1)), v1.PodRunning, "start-container c s attempt=1"},
		{"in back-off: wait", fresh(sandbox, image, exited("c", 1, 1), func(s *State) {
			s.backoffs["c"] = Backoff{Delay: 10 * time.Second, At: now.Add(-2 * time.Second)}
		}), v1.PodRunning, ""},
		{"OnFailure and 0: done, stop the sandbox", fresh(sandbox, policy(v1.RestartPolicyOnFailure), exited("c", 0, 0)), v1.PodSucceeded, "stop-sandbox s"},
		{"Never and 1: failed", fresh(sandbox, policy(v1.RestartPolicyNever), exited("c", 0, 1)), v1.PodFailed, "stop-sandbox s"},
		{"init first", fresh(sandbox, image, initContainer), v1.PodPending, "start-container init s attempt=0"},
		{"init runs: wait", fresh(sandbox, image, initContainer, running("init")), v1.PodPending, ""},
		{"init done: start", fresh(sandbox, image, initContainer, exited("init", 0, 0)), v1.PodPending, "start-container c s attempt=0"},
		{"init failed, Never: failed", fresh(sandbox, image, initContainer, policy(v1.RestartPolicyNever), exited("init", 0, 2)), v1.PodFailed, "stop-sandbox s"},
		{"deleted: stop with its grace", fresh(sandbox, running("c"), deleted(7)), v1.PodRunning, "stop-container c c1 grace=7s"},
		{"deleted, grace shrinks: stop again", fresh(sandbox, running("c"), deleted(2), func(s *State) {
			s.inFlight["stop/c1"] = now.Add(30 * time.Second)
		}), v1.PodRunning, "stop-container c c1 grace=2s"},
		{"deleted while a start is in flight: wait for it", fresh(sandbox, deleted(7), func(s *State) { s.inFlight["start/c"] = now }), v1.PodPending, ""},
		{"deleted before start: failed", fresh(sandbox, deleted(7)), v1.PodFailed, "stop-sandbox s"},
		{"image changed: restart", fresh(sandbox, running("c"), func(s *State) { s.runtime.Containers[0].Hash = "other" }), v1.PodRunning, "stop-container c c1 grace=30s"},
		{"liveness failed: stop with the pod's grace", fresh(sandbox, running("c"), dead("c1", "failed liveness probe")), v1.PodRunning, "stop-container c c1 grace=30s"},
		{"liveness failed: the probe's own grace", fresh(sandbox, running("c"), dead("c1", "failed liveness probe"), func(s *State) {
			g := int64(5)
			s.pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &g}
		}), v1.PodRunning, "stop-container c c1 grace=5s"},
		{"verdict about an earlier instance: rest", fresh(sandbox, running("c"), dead("c0", "failed liveness probe")), v1.PodRunning, ""},
		{"postStart runs: not yet running, nothing else starts", fresh(sandbox, image, running("c"), second, func(s *State) {
			s.postStart = map[string]PostStart{"c": {ContainerID: "c1"}}
			s.inFlight["start/c/hook"] = now
		}), v1.PodPending, "ensure-image d"},
		{"postStart failed: stop", fresh(sandbox, running("c"), func(s *State) {
			s.postStart = map[string]PostStart{"c": {ContainerID: "c1", Done: true, Failed: true}}
		}), v1.PodRunning, "stop-container c c1 grace=30s"},
		{"an image that two containers mount: once, before the start", fresh(sandbox, image, second, func(s *State) {
			s.images["d"] = Image{Ref: "r"}
			s.pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "x"}}}}
			for i := range s.pod.Spec.Containers {
				s.pod.Spec.Containers[i].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
			}
		}), v1.PodPending, "ensure-image v"},
		{"two containers: one after the other", fresh(sandbox, image, second, func(s *State) { s.images["d"] = Image{Ref: "r"} }), v1.PodPending, "start-container c s attempt=0"},
		{"two containers: the second when the first runs", fresh(sandbox, image, second, running("c"), func(s *State) { s.images["d"] = Image{Ref: "r"} }), v1.PodPending, "start-container d s attempt=0"},
		{"restart half made: still Running", fresh(sandbox, image, exited("c", 0, 1), func(s *State) {
			s.inFlight["start/c"] = now
			s.runtime.Containers = append(s.runtime.Containers, Container{ID: "c2", SandboxID: "s", Name: "c", Attempt: 1, State: Created})
		}), v1.PodRunning, ""},
		{"removing failed: not at once again", fresh(sandbox, running("c"), exited("c", 0, 1), func(s *State) {
			s.runtime.Containers[0].Attempt, s.runtime.Containers[1].ID = 2, "c0"
			s.runtime.Containers = append(s.runtime.Containers, Container{ID: "cx", SandboxID: "s", Name: "c", State: Exited, CreatedAt: now.Add(-time.Hour)})
			s.failures[RemoveKey] = &Failure{RetryAt: now.Add(time.Second)}
		}), v1.PodRunning, ""},
		{"sidecar first", fresh(sandbox, image, sidecarC), v1.PodPending, "start-container side s attempt=0"},
		{"sidecar runs: app", fresh(sandbox, image, sidecarC, running("side")), v1.PodPending, "start-container c s attempt=0"},
		{"sidecar with a startup probe that has not succeeded: wait", fresh(sandbox, image, sidecarC, running("side"), func(s *State) {
			s.pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
		}), v1.PodPending, ""},
		{"sidecar failed its liveness probe: stop", fresh(sandbox, image, sidecarC, running("side"), running("c"), dead("side1", "failed liveness probe")), v1.PodRunning, "stop-container side side1 grace=30s"},
		{"sidecar of another image: stop", fresh(sandbox, image, sidecarC, running("side"), running("c"), func(s *State) {
			s.runtime.Containers[0].Hash = "other"
		}), v1.PodRunning, "stop-container side side1 grace=30s"},
		{"sidecar ended with 0: again", fresh(sandbox, image, policy(v1.RestartPolicyNever), sidecarC, exited("side", 0, 0), running("c")), v1.PodRunning, "start-container side s attempt=1"},
		{"apps done: the sidecar goes", fresh(sandbox, image, policy(v1.RestartPolicyNever), sidecarC, running("side"), exited("c", 0, 0)), v1.PodRunning, "stop-container side side1 grace=30s"},
		{"apps and sidecar done: done, whatever the sidecar says", fresh(sandbox, image, policy(v1.RestartPolicyNever), sidecarC, exited("side", 0, 137), exited("c", 0, 0)), v1.PodSucceeded, "stop-sandbox s"},
		{"deleted: apps before sidecars", fresh(sandbox, image, sidecarC, running("side"), running("c"), deleted(9)), v1.PodRunning, "stop-container c c1 grace=9s"},
		{"deleted: last sidecar first", fresh(sandbox, image, sidecarC, sidecarB, running("side"), running("sideb"), exited("c", 0, 0), deleted(9)), v1.PodRunning, "stop-container sideb sideb1 grace=9s"},
		{"init of its own policy Never failed", fresh(sandbox, image, initContainer, containerPolicy(v1.ContainerRestartPolicyNever), exited("init", 0, 2)), v1.PodFailed, "stop-sandbox s"},
		{"init with a rule for its code: again", fresh(sandbox, image, initContainer, policy(v1.RestartPolicyNever), rule(v1.ContainerRestartRuleOnExitCodesOpIn, 42), exited("init", 0, 42)), v1.PodPending, "start-container init s attempt=1"},
		{"init with a rule for other codes: failed", fresh(sandbox, image, initContainer, policy(v1.RestartPolicyNever), rule(v1.ContainerRestartRuleOnExitCodesOpNotIn, 42), exited("init", 0, 42)), v1.PodFailed, "stop-sandbox s"},
		{"sandbox gone: init once more", fresh(image, initContainer, exited("init", 0, 0), exited("c", 0, 1), func(s *State) {
			s.volumesReady = true
			s.runtime.Sandboxes = []Sandbox{{ID: "s"}, {ID: "t", Attempt: 1, Ready: true, IPs: []string{"10.0.0.6"}}}
		}), v1.PodRunning, "start-container init t attempt=1"},
		{"sandbox gone: a new one", fresh(image, exited("c", 0, 1), func(s *State) {
			s.volumesReady = true
			s.runtime.Sandboxes = []Sandbox{{ID: "s"}}
		}), v1.PodRunning, "create-sandbox attempt=1"},
		{"ephemeral container: while init runs", fresh(sandbox, image, initContainer, running("init"), ephemeral), v1.PodPending, "start-container e s attempt=0"},
		{"ephemeral container ended: never again", fresh(sandbox, image, running("c"), ephemeral, exited("e", 0, 1)), v1.PodRunning, ""},
		{"ephemeral container half made: away with it", fresh(sandbox, image, running("c"), ephemeral, func(s *State) {
			s.runtime.Containers = append(s.runtime.Containers, Container{ID: "e1", Name: "e", State: Created})
		}), v1.PodRunning, "remove-container e e1"},
		{"deadline passed: stop", fresh(sandbox, running("c"), activeFor(5), startedAgo(6*time.Second)), v1.PodRunning, "stop-container c c1 grace=30s"},
		{"deadline ahead: rest", fresh(sandbox, running("c"), activeFor(5), startedAgo(4*time.Second)), v1.PodRunning, ""},
		{"somebody wrote Failed: stop", fresh(sandbox, running("c"), func(s *State) { s.pod.Status.Phase = v1.PodFailed }), v1.PodFailed, "stop-container c c1 grace=30s"},
		{"gone from the API by force: a second", fresh(sandbox, running("c"), deleted(0), func(s *State) { s.gone = true }), v1.PodRunning, "stop-container c c1 grace=1s"},
		{"static and gone: no phase is forced on it", fresh(sandbox, func(s *State) { s.static, s.gone = true, true }), v1.PodPending, "stop-sandbox s"},
		{"orphan, sandbox down: remove it", orphan(&Runtime{Sandboxes: []Sandbox{{ID: "s"}}}, cleaned), "", "remove-sandbox s"},
		{"orphan, sandbox down, its stop in flight: wait for its network", orphan(&Runtime{Sandboxes: []Sandbox{{ID: "s"}}}, cleaned,
			func(s *State) { s.inFlight["stop-sandbox/s"] = now }), "", ""},
		{"orphan: stop with a second", orphan(&Runtime{Containers: []Container{{ID: "x", Name: "c", State: Running}}}), "", "stop-container c x grace=1s"},
		{"unknown pod, not all sources read: nothing", orphan(&Runtime{Containers: []Container{{ID: "x", Name: "c", State: Running}}},
			func(s *State) { s.sourcesReady = false }), "", ""},
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
	s.runtime = &Runtime{} // the runtime lost everything
	if p = Reconcile(s, Node{}, now); p.Status.Phase != v1.PodSucceeded || p.Status.ContainerStatuses[0].State.Terminated == nil {
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

func TestAuditForgetsWhatIsGone(t *testing.T) {
	old, young := now.Add(-time.Hour), now.Add(-time.Minute)
	r := &Runtime{Sandboxes: []Sandbox{{ID: "s", CreatedAt: old}}, Containers: []Container{{ID: "x", State: Running, CreatedAt: old},
		{ID: "y", State: Running, CreatedAt: young}, {ID: "z", State: Exited, CreatedAt: old}}}
	out := r.Audited(&Runtime{Sandboxes: r.Sandboxes, Containers: []Container{{ID: "z", State: Running, CreatedAt: old}}}, now)
	if len(out.Sandboxes) != 1 || len(out.Containers) != 2 || out.Containers[0].ID != "y" || out.Containers[1].State != Exited || len(r.Containers) != 3 {
		t.Errorf("got %+v", out)
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
	if at, b = nextStart(b, now.Add(11*time.Minute), Node{}); !at.Equal(now.Add(11*time.Minute)) || b.Delay != 10*time.Second {
		t.Errorf("after quiet: %v %v", at, b)
	}
}
