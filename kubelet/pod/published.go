package pod

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastStatus returns the latest published status; before the first, that of the pod in the API.
func lastStatus(s *State) *v1.PodStatus {
	switch {
	case s.last != nil:
		return s.last
	case s.pod != nil:
		return &s.pod.Status
	}
	return &v1.PodStatus{}
}

func startTime(s *State) *metav1.Time { return lastStatus(s).StartTime }

// podDeadline returns when the pod has run for as long as it may, or the zero time.
func podDeadline(s *State) time.Time {
	start := startTime(s)
	if s.pod == nil || s.pod.Spec.ActiveDeadlineSeconds == nil || start == nil {
		return time.Time{}
	}
	return start.Add(time.Duration(*s.pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// findStatus returns the last status of the named container, or nil.
func findStatus(s *State, name string) *v1.ContainerStatus {
	last := lastStatus(s)
	for _, list := range [][]v1.ContainerStatus{last.ContainerStatuses, last.InitContainerStatuses,
		last.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// findCondition returns the condition of that type, or nil.
func findCondition(st *v1.PodStatus, kind v1.PodConditionType) *v1.PodCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == kind {
			return &st.Conditions[i]
		}
	}
	return nil
}

// setCondition adds c to st, or replaces the condition of that type. Its transition time is that in last unless its
// status changed.
func setCondition(st, last *v1.PodStatus, c v1.PodCondition, now time.Time) {
	c.ObservedGeneration = st.ObservedGeneration
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	for _, old := range last.Conditions {
		if old.Type == c.Type && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	i := slices.IndexFunc(st.Conditions, func(o v1.PodCondition) bool { return o.Type == c.Type })
	if i < 0 {
		st.Conditions = append(st.Conditions, c)
		return
	}
	st.Conditions[i] = c
}

func truth(ok bool) v1.ConditionStatus {
	if ok {
		return v1.ConditionTrue
	}
	return v1.ConditionFalse
}
