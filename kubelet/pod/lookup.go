package pod

import (
	"slices"

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

func terminal(phase v1.PodPhase) bool { return phase == v1.PodFailed || phase == v1.PodSucceeded }

// appsSeen reports whether a regular container has run in the newest sandbox, since the last reset: then its init
// phase is over.
func appsSeen(s *State) bool {
	for i := range s.pod.Spec.Containers {
		cur, _ := s.runtime.latest(s.pod.Spec.Containers[i].Name)
		if cur != nil && inNewest(s, cur) && cur.State != Created && !stale(s, cur) {
			return true
		}
	}
	return false
}

// isSidecar reports whether an init container runs beside the containers after it.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// mountedImages returns the names of the volumes that c mounts and that are images.
func mountedImages(p *v1.Pod, c *v1.Container) (names []string) {
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		if i >= 0 && p.Spec.Volumes[i].Image != nil && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

func isEphemeral(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.EphemeralContainers,
		func(c v1.EphemeralContainer) bool { return c.Name == name })
}

func isInit(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}

// FindContainer returns the container of that name in the spec of p, or nil. What it returns for an ephemeral
// container is a copy.
func FindContainer(p *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}

	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			c := v1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			return &c
		}
	}
	return nil
}
