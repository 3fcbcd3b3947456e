package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/pod/desired"
)

// setConditions adds the conditions that the node owns to st, and those of others as they are.
func setConditions(st *v1.PodStatus, s *State, last *v1.PodStatus, now time.Time) {
	for _, c := range s.pod.Status.Conditions {
		switch c.Type {
		case v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled,
			v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		default:
			st.Conditions = append(st.Conditions, c)
		}
	}

	box := s.runtime.NewestSandbox()
	network := box != nil && box.Ready && (len(box.IPs) > 0 || box.HostNetwork)
	set := func(c v1.PodCondition) { setCondition(st, last, c, now) }
	set(v1.PodCondition{Type: v1.PodReadyToStartContainers,
		Status: truth(network && (s.volumes.ready || s.runtime.Running()) && !terminal(st.Phase))})
	set(initialized(st, s))
	containers := containersReady(st, s)
	readiness := containers
	readiness.Type = v1.PodReady
	if containers.Status == v1.ConditionTrue {
		var missing []string
		for _, g := range s.pod.Spec.ReadinessGates {
			i := slices.IndexFunc(s.pod.Status.Conditions,
				func(c v1.PodCondition) bool { return c.Type == g.ConditionType })
			switch {
			case i < 0:
				missing = append(missing,
					fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", g.ConditionType))
			case s.pod.Status.Conditions[i].Status != v1.ConditionTrue:
				missing = append(missing,
					fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", g.ConditionType,
						s.pod.Status.Conditions[i].Status))
			}
		}
		if len(missing) > 0 {
			readiness.Status, readiness.Reason, readiness.Message = v1.ConditionFalse, "ReadinessGatesNotReady",
				strings.Join(missing, ", ")
		}
	}

	set(readiness)
	set(containers)
	set(v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	if desired.MayReset(s.pod) {
		set(resetCondition(s, st.Phase))
	}
	resizeConditions(st, s, last, now)
}

// initialized returns the condition Initialized: true once every init container has succeeded and every sidecar has
// started. It reads st, whose container statuses must be complete.
func initialized(st *v1.PodStatus, s *State) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if st.Phase == v1.PodSucceeded {
		c.Reason = "PodCompleted"
		return c
	}

	for _, cs := range st.ContainerStatuses {
		if cs.ContainerID != "" { // a regular container has run, so the init phase is over
			return c
		}
	}

	var open []string
	for i, cs := range st.InitContainerStatuses {
		if desired.IsSidecar(&s.pod.Spec.InitContainers[i]) {
			if cs.Started == nil || !*cs.Started {
				open = append(open, cs.Name)
			}
		} else if !cs.Ready {
			open = append(open, cs.Name)
		}
	}

	if len(open) > 0 {
		c.Status, c.Reason = v1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(open, " "))
	}
	return c
}

// containersReady returns the condition ContainersReady: true if all regular containers and all sidecars are ready. It
// reads the container statuses of st. A pod that has ended is never ready, whatever its containers say.
func containersReady(st *v1.PodStatus, s *State) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue}
	switch st.Phase {
	case v1.PodSucceeded:
		c.Status, c.Reason = v1.ConditionFalse, "PodCompleted"
		return c
	case v1.PodFailed:
		c.Status, c.Reason = v1.ConditionFalse, "PodFailed"
		return c
	}

	var unready []string
	for i, cs := range st.InitContainerStatuses {
		if desired.IsSidecar(&s.pod.Spec.InitContainers[i]) && !cs.Ready {
			unready = append(unready, cs.Name)
		}
	}

	for _, cs := range st.ContainerStatuses {
		if !cs.Ready {
			unready = append(unready, cs.Name)
		}
	}

	if len(unready) > 0 {
		c.Status, c.Reason = v1.ConditionFalse, "ContainersNotReady"
		c.Message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	return c
}

// applyStop adds the reason and the conditions of the node's decision to a terminal status.
func applyStop(st *v1.PodStatus, s *State, stop *Stop, now time.Time) {
	if stop.Reason != "" {
		st.Reason, st.Message = stop.Reason, stop.Message
	}
	for _, c := range stop.Conditions {
		setCondition(st, lastStatus(s), c, now)
	}
	if stop.Rejected {
		st.ContainerStatuses, st.InitContainerStatuses, st.EphemeralContainerStatuses = nil, nil, nil
	}
}
