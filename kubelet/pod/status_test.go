package pod

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/observed"
)

var facts = Node{HostIPs: []string{"10.0.0.1"}, RuntimeName: "containerd"}

func conditionText(st *v1.PodStatus, t v1.PodConditionType) string {
	for _, c := range st.Conditions {
		if c.Type == t {
			return strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message)
		}
	}
	return "none"
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		name                                string
		state                               *State
		initialized, ready, containersReady string
	}{

		{"new", fresh(), "True", "False ContainersNotReady containers with unready status: [c]",
			"False ContainersNotReady containers with unready status: [c]"},
		{"runs", fresh(sandbox, running("c")), "True", "True", "True"},
		{"init containers in the order of the spec", fresh(sandbox, image, func(s *State) {
			s.pod.Spec.InitContainers = []v1.Container{{Name: "z", Image: "i"}, {Name: "a", Image: "i"}}
		}), "False ContainersNotInitialized containers with incomplete status: [z a]",
			"False ContainersNotReady containers with unready status: [c]",
			"False ContainersNotReady containers with unready status: [c]"},
		{"one init container done", fresh(sandbox, image, func(s *State) {
			s.pod.Spec.InitContainers = []v1.Container{{Name: "z", Image: "i"}, {Name: "a", Image: "i"}}
		}, exited("z", 0, 0)), "False ContainersNotInitialized containers with incomplete status: [a]",
			"False ContainersNotReady containers with unready status: [c]",
			"False ContainersNotReady containers with unready status: [c]"},
		{"init container that runs", fresh(sandbox, image, func(s *State) {
			s.pod.Spec.InitContainers = []v1.Container{{Name: "z", Image: "i"}, {Name: "a", Image: "i"}}
		}, running("z")), "False ContainersNotInitialized containers with incomplete status: [z a]",
			"False ContainersNotReady containers with unready status: [c]",
			"False ContainersNotReady containers with unready status: [c]"},
		{"sidecar in back-off", fresh(sandbox, image, sidecarC, running("c"), exited("side", 1, 1), func(s *State) {
			s.backoffs["side"] = Backoff{Delay: time.Minute, At: now}
		}), "True", "False ContainersNotReady containers with unready status: [side]",
			"False ContainersNotReady containers with unready status: [side]"},
		{"readiness gate missing", fresh(sandbox, running("c"), func(s *State) {
			s.pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x/y"}}
		}), "True", `False ReadinessGatesNotReady corresponding condition of pod readiness gate "x/y" does not exist.`,
			"True"},
		{"done", fresh(sandbox, policy(v1.RestartPolicyNever), exited("c", 0, 0)), "True PodCompleted",
			"False PodCompleted", "False PodCompleted"},
		{"failed", fresh(sandbox, policy(v1.RestartPolicyNever), exited("c", 0, 1)), "True", "False PodFailed",
			"False PodFailed"},
	} {

		p := Reconcile(c.state, facts, now)
		for typ, want := range map[v1.PodConditionType]string{v1.PodInitialized: c.initialized, v1.PodReady: c.ready,
			v1.ContainersReady: c.containersReady} {
			if got := conditionText(&p.Status, typ); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, typ, got, want)
			}
		}
		for _, cond := range p.Status.Conditions {
			if cond.ObservedGeneration != 4 {
				t.Errorf("%s: condition %s is about generation %d, want 4", c.name, cond.Type, cond.ObservedGeneration)
			}
		}
	}
}

// stateText is the state of a container in a word or two, with its restart count.
func stateText(c *v1.ContainerStatus) string {
	switch {
	case c.State.Waiting != nil:
		return "waiting " + c.State.Waiting.Reason
	case c.State.Running != nil:
		return "running"
	case c.State.Terminated != nil:
		return "terminated " + c.State.Terminated.Reason
	}
	return "none"
}

func TestContainerStates(t *testing.T) {
	failure := func(reason string, retry time.Duration) func(*State) {
		return func(s *State) {
			s.tasks.failures["c"] = &Failure{Reason: reason, Message: "m", RetryAt: now.Add(retry)}
		}
	}

	backoff := func(s *State) { s.backoffs["c"] = Backoff{Delay: time.Minute, At: now} }
	noImage := func(s *State) {
		s.images["c"] = Image{Failure: &Failure{Reason: "ErrImagePull", Message: "m", RetryAt: now.Add(time.Second)}}
	}

	for _, c := range []struct {
		name, want string
		state      *State
		last       int32 // exit code of the last termination state, -1 for none
	}{

		{"new", "waiting ContainerCreating", fresh(), -1},
		{"new, with init containers", "waiting PodInitializing", fresh(initContainer), -1},
		{"image cannot be pulled", "waiting ErrImagePull", fresh(sandbox, noImage), -1},
		{"cannot be made", "waiting CreateContainerConfigError",
			fresh(sandbox, image, failure("CreateContainerConfigError", time.Second)), -1},
		{"ended, restarts at once", "terminated ", fresh(sandbox, image, exited("c", 0, 3)), -1},
		{"in back-off", "waiting CrashLoopBackOff", fresh(sandbox, image, exited("c", 1, 3), backoff), 3},
		{"starts again: not in the next back-off yet", "terminated ",
			fresh(sandbox, image, exited("c", 0, 3), func(s *State) {
				s.backoffs["c"] = Backoff{Delay: 10 * time.Second, At: now}
				s.tasks.inFlight["start/c"] = now
			}), -1},
		{"did not start", "waiting RunContainerError",
			fresh(sandbox, image, exited("c", 1, 128), backoff, failure("RunContainerError", time.Second)), 128},
		{"did not start, some time ago", "waiting CrashLoopBackOff",
			fresh(sandbox, image, exited("c", 1, 128), backoff, failure("RunContainerError", -1)), 128},
		{"ended, and its image is gone", "waiting ErrImagePull", fresh(sandbox, noImage, exited("c", 0, 3)), 3},
		{"postStart runs", "waiting ContainerCreating", fresh(sandbox, running("c"), func(s *State) {
			s.hooks = map[string]PostStart{"c": {ContainerID: "c1"}}
		}), -1},
		{"postStart runs, but the pod ends", "running", fresh(sandbox, running("c"), deleted(3), func(s *State) {
			s.hooks = map[string]PostStart{"c": {ContainerID: "c1"}}
		}), -1},
		{"made again, not started", "terminated ", fresh(sandbox, image, exited("c", 0, 3), func(s *State) {
			s.tasks.inFlight["start/c"] = now
			s.runtime.Containers = append(s.runtime.Containers, observed.Container{ID: "c2", Name: "c", Attempt: 1})
		}), -1},
	} {

		p := Reconcile(c.state, facts, now)
		if _, starts := c.state.tasks.inFlight["start/c"]; starts && len(p.Events) > 0 {
			t.Errorf("%s: events %+v", c.name, p.Events)
		}
		got := &p.Status.ContainerStatuses[0]
		if stateText(got) != c.want {
			t.Errorf("%s: %s, want %s", c.name, stateText(got), c.want)
		}
		last := int32(-1)
		if got.LastTerminationState.Terminated != nil {
			last = got.LastTerminationState.Terminated.ExitCode
		}
		if last != c.last {
			t.Errorf("%s: last exit code %d, want %d", c.name, last, c.last)
		}
	}
}

func TestBackoffMessage(t *testing.T) {
	s := fresh(sandbox, image, exited("c", 1, 3),
		func(s *State) { s.backoffs["c"] = Backoff{Delay: 20 * time.Second, At: now} })
	p := Reconcile(s, facts, now)
	if got, want := p.Status.ContainerStatuses[0].State.Waiting.Message,
		"back-off 20s restarting failed container=c pod=p_ns(u)"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if len(p.Events) != 1 || p.Events[0].Message != "Back-off restarting failed container c in pod p_ns(u)" ||
		p.Events[0].Reason != "BackOff" {
		t.Errorf("events %+v", p.Events)
	}
	if want := now.Add(19 * time.Second); !p.NextWake.Equal(want) {
		t.Errorf("wakes at %v, want %v", p.NextWake, want)
	}
}

func TestDeadlineReported(t *testing.T) {
	s := fresh(sandbox, activeFor(5), startedAgo(6*time.Second), policy(v1.RestartPolicyNever), exited("c", 0, 137))
	s.ending.since = now
	p := Reconcile(s, facts, now)
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != "DeadlineExceeded" || p.Status.Message == "" {
		t.Errorf("status %s %q %q", p.Status.Phase, p.Status.Reason, p.Status.Message)
	}
	if len(p.Events) != 1 || p.Events[0].Reason != "DeadlineExceeded" || p.Events[0].Type != v1.EventTypeNormal {
		t.Errorf("events %+v", p.Events)
	}
	// The API has it now, and the kubelet has restarted: no event is sent twice.
	again := fresh(sandbox, activeFor(5), startedAgo(6*time.Second), exited("c", 0, 137),
		func(s *State) { s.pod.Status = p.Status })
	if p = Reconcile(again, facts, now); len(p.Events) != 0 || p.Status.Reason != "DeadlineExceeded" {
		t.Errorf("afterwards: events %+v, reason %s", p.Events, p.Status.Reason)
	}
}

func TestMessagesAreShared(t *testing.T) {
	s := fresh(sandbox, second, policy(v1.RestartPolicyNever), exited("c", 0, 1), exited("d", 0, 1))
	long := strings.Repeat("ü", 4000)
	s.runtime.Containers[0].Message, s.runtime.Containers[1].Message = long, "short"
	p := Reconcile(s, facts, now)
	got := p.Status.ContainerStatuses[0].State.Terminated.Message
	if len(got) != 6144 || p.Status.ContainerStatuses[1].State.Terminated.Message != "short" {
		t.Errorf("%d bytes, want 6144", len(got))
	}
	if s.runtime.Containers[0].Message != long {
		t.Error("the snapshot was changed")
	}
}

// TestLostContainers: what the runtime no longer knows keeps what the API knows of it.
func TestLostContainers(t *testing.T) {
	before := Reconcile(fresh(sandbox, image, initContainer, exited("init", 0, 0), running("c")), facts, now).Status
	lost := fresh(sandbox, initContainer, running("c"), func(s *State) { s.pod.Status = before })
	st := Reconcile(lost, facts, now).Status
	if in := st.InitContainerStatuses[0]; in.State.Terminated == nil || in.State.Terminated.ExitCode != 0 ||
		!in.Ready || in.ContainerID == "" {
		t.Errorf("init container: %+v", in)
	}
	unknown := fresh(sandbox, initContainer, running("c"))
	st = Reconcile(unknown, facts, now).Status
	if in := st.InitContainerStatuses[0]; in.State.Terminated == nil || in.State.Terminated.Reason != "Completed" ||
		!in.Ready {
		t.Errorf("init container that nobody knows: %+v", in)
	}
	gone := fresh(func(s *State) { s.pod.Status, s.ending.cleaned = before, true }, deleted(1))
	p := Reconcile(gone, facts, now)
	if c := p.Status.ContainerStatuses[0]; c.State.Terminated == nil || c.State.Terminated.ExitCode != 137 ||
		c.State.Terminated.Reason != "ContainerStatusUnknown" || p.Status.Phase != v1.PodFailed {
		t.Errorf("at the end: %s %+v", p.Status.Phase, c.State)
	}
	if p.Status.PodIP != "10.0.0.5" {
		t.Errorf("the address is %q, want the last known one", p.Status.PodIP)
	}
}

func TestOthersConditionsStay(t *testing.T) {
	s := fresh(sandbox, running("c"), deleted(3), func(s *State) {
		s.pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
			Reason: "EvictionByEvictionAPI"}}
	})
	p := Reconcile(s, facts, now)
	if got := conditionText(&p.Status, v1.DisruptionTarget); got != "True EvictionByEvictionAPI" {
		t.Errorf("DisruptionTarget is %q", got)
	}
}

func TestMountStatuses(t *testing.T) {
	s := fresh(sandbox, running("c"), func(s *State) {
		s.pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "a", MountPath: "/a"},
			{Name: "b", MountPath: "/b", ReadOnly: true}}
	})
	got := Reconcile(s, facts, now).Status.ContainerStatuses[0].VolumeMounts
	if len(got) != 2 || got[0].RecursiveReadOnly != nil || got[1].RecursiveReadOnly == nil ||
		*got[1].RecursiveReadOnly != v1.RecursiveReadOnlyDisabled {
		t.Errorf("mounts %+v", got)
	}

	possible := v1.RecursiveReadOnlyIfPossible
	s.pod.Spec.Containers[0].VolumeMounts[1].RecursiveReadOnly = &possible
	for _, c := range []struct {
		handlers []string
		want     v1.RecursiveReadOnlyMode
	}{{nil, v1.RecursiveReadOnlyDisabled}, {[]string{"kata"}, v1.RecursiveReadOnlyDisabled}, {[]string{"kata", ""},
		v1.RecursiveReadOnlyEnabled}} {
		f := facts
		f.RecursiveReadOnly = c.handlers
		if got := Reconcile(s, f, now).Status.ContainerStatuses[0].VolumeMounts[1].RecursiveReadOnly; *got != c.want {
			t.Errorf("handlers %q: if possible is %s, want %s", c.handlers, *got, c.want)
		}
	}
}
